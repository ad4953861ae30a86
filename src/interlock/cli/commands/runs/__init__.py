"""`interlock runs` and its subcommands."""
