"""Re-identification risk of shared speech (Wiepert et al., 2024, doi:10.2196/52054): its pipeline, step by step.

An adversary holds identified speech (the known, or training, set) and looks for the same people in a shared data set
(the unknown, or test, set): PLDA on speaker embeddings scores every known against every unknown speaker.
"""
