"""From units to words: synthetic commands, training data, training, export and measuring of the recogniser."""
