//! A description as a Mermaid flow chart.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::describe::{Description, NodeRole};

/// A chart whose parts are numbered: what a name may hold is no matter then.
pub(crate) fn chart(description: &Description) -> String {
    let mut chart = Chart::default();
    for sub in &description.sub_topologies {
        chart.open(sub.id);
        for node in &sub.nodes {
            let (shape, roles): (_, &[String]) = match &node.role {
                NodeRole::Source { topics } => (Shape::End, topics),
                NodeRole::Processor { stores } => (Shape::Step, stores),
                NodeRole::Sink { topic, .. } => (Shape::End, topic.as_slice()),
            };
            let id = chart.part("n", &node.name, shape);
            for successor in &node.successors {
                chart.edges.push((id.clone(), "-->", Target::Node(successor.clone())));
            }
            for name in roles {
                chart.role(&id, name, &node.role);
            }
        }
        chart.close();
    }
    chart.finish()
}

#[derive(Clone, Copy)]
enum Shape {
    /// A source or a sink.
    End,
    Step,
    Store,
    /// Drawn beside the boxes, as sub-topologies share it.
    Topic,
}

/// The other end of an edge: a node may be drawn later.
enum Target {
    Node(String),
    Part(String),
}

#[derive(Default)]
struct Chart {
    /// The boxes so far.
    boxes: String,
    /// What is drawn outside of them.
    outside: String,
    edges: Vec<(String, &'static str, Target)>,
    /// The numbers of parts that are drawn, by kind and name.
    drawn: BTreeMap<(&'static str, String), String>,
}

impl Chart {
    fn open(&mut self, sub: u32) {
        let _ = writeln!(self.boxes, "    subgraph sub{sub}[\"Sub-topology {sub}\"]");
    }

    fn close(&mut self) {
        self.boxes.push_str("    end\n");
    }

    /// Draws a part unless it is there, and answers its number.
    fn part(&mut self, kind: &'static str, name: &str, shape: Shape) -> String {
        let next = self.drawn.len();
        let id = match self.drawn.entry((kind, name.to_owned())) {
            std::collections::btree_map::Entry::Occupied(there) => return there.get().clone(),
            std::collections::btree_map::Entry::Vacant(new) => new.insert(format!("{kind}{next}")).clone(),
        };
        let (open, close) = match shape {
            Shape::End => ("([", "])"),
            Shape::Step => ("[", "]"),
            Shape::Store => ("[(", ")]"),
            Shape::Topic => ("[/", "/]"),
        };
        let (out, indent) = match shape {
            Shape::Topic => (&mut self.outside, "    "),
            _ => (&mut self.boxes, "        "),
        };
        let _ = writeln!(out, "{indent}{id}{open}\"{name}\"{close}");
        id
    }

    /// Draws what a node reads or writes beside the graph.
    fn role(&mut self, node: &str, name: &str, role: &NodeRole) {
        match role {
            NodeRole::Source { .. } => {
                let topic = self.part("t", name, Shape::Topic);
                self.edges.push((topic, "-->", Target::Part(node.to_owned())));
            }
            NodeRole::Processor { .. } => {
                let store = self.part("s", name, Shape::Store);
                self.edges.push((node.to_owned(), "-.-", Target::Part(store)));
            }
            NodeRole::Sink { .. } => {
                let topic = self.part("t", name, Shape::Topic);
                self.edges.push((node.to_owned(), "-->", Target::Part(topic)));
            }
        }
    }

    fn finish(self) -> String {
        let mut text = format!("flowchart TD\n{}{}", self.outside, self.boxes);
        for (from, arrow, to) in &self.edges {
            let to = match to {
                Target::Part(id) => Some(id),
                Target::Node(name) => self.drawn.get(&("n", name.clone())),
            };
            let _ = to.map(|to| writeln!(text, "    {from} {arrow} {to}"));
        }
        text
    }
}
