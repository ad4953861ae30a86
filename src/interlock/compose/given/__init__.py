"""What callers give: crews with their functions, models, deps."""
