//! An in-process broker: the embedded default of Millpond and its test double.
