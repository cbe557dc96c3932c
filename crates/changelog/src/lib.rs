//! Compacted topics of Millpond: names, configs, encoding, restore.
