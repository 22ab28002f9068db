"""What the EM loop runs: naive Bayes, where it starts, and how labelled rows are counted once."""
