//! The graph, the Processor API and the DSL of Millpond; no I/O, no threads.
