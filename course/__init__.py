"""The interactive course over `minipar`: lessons, explorers, exercises, quizzes and progress."""
