"""Dict Sum: keep a running sum of the values of words."""
