"""One file per figure; each prints one JSON object with a ratio to a peer measured in the same run."""
