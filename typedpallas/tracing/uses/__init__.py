"""What a kernel's body makes of its values and operands."""
