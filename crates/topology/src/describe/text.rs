//! A description as text, as Kafka Streams 4.4 prints it.

use std::fmt::{Display, Formatter, Result};

use crate::describe::{Description, NodeDescription, NodeRole};

impl Display for Description {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("Topologies:\n ")?;
        for sub in &self.sub_topologies {
            writeln!(f, "  Sub-topology: {}", sub.id)?;
            sub.nodes.iter().try_for_each(|node| write!(f, "{node}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Display for NodeDescription {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let name = &self.name;
        match &self.role {
            NodeRole::Source { topics } => writeln!(f, "    Source: {name} (topics: [{}])", topics.join(", "))?,
            NodeRole::Processor { stores } => writeln!(f, "    Processor: {name} (stores: [{}])", stores.join(", "))?,
            NodeRole::Sink { topic: Some(topic), .. } => writeln!(f, "    Sink: {name} (topic: {topic})")?,
            NodeRole::Sink { topic: None, extractor } => {
                writeln!(f, "    Sink: {name} (extractor class: {})", extractor.as_deref().unwrap_or_default())?;
            }
        }
        if !matches!(self.role, NodeRole::Sink { .. }) {
            writeln!(f, "      --> {}", names(&self.successors))?;
        }
        if !matches!(self.role, NodeRole::Source { .. }) {
            writeln!(f, "      <-- {}", names(&self.predecessors))?;
        }
        Ok(())
    }
}

fn names(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
