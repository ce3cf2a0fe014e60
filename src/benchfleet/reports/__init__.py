"""Reading results and showing what won."""
