//! The case list that every Millpond storage engine must pass.
