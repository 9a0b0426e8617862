"""What can be learnt from transitions that somebody else has played?"""
