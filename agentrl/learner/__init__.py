"""Learning: one step, open at every joint. Pure functions, no files.

Read `train_step.py` first: collect, annotate, credit, update, carry. The type that crosses the
border is `state.TrainState`. A method of the field is a function that one of these places takes:
an annotation, a reward term, a filter, an estimator, a reweighting, an objective term, or a
`component.Component` for what is carried from update to update.
"""
