//! The storage seam of Millpond: what an engine promises, and the store kinds that stand on it.
