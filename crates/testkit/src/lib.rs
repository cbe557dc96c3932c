//! The topology test driver and the seeded simulator of Millpond.
