"""What the lessons show: one module a lesson, with its pictures, its predictions and its real runs."""
