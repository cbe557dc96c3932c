//! Connections to servers that misbehave.
