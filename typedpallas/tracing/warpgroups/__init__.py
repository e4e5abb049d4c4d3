"""What runs beside a Mosaic GPU kernel's warpgroups, followed turn by turn."""
