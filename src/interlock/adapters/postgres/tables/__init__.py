"""Tables beside the runs: questions, orders, schedules, usage totals, and tables of the server."""
