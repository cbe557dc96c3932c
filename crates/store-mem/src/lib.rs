//! Millpond's ordered in-memory storage engine.
