"""One file a construct: what the plugin does there."""
