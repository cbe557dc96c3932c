//! Tasks, workers, rebalance, commit and restore of Millpond.
