//! The tree, through which idle nodes are found.

use crate::discovery::nearest::{self, Nearest};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{Host, NodeEvent};
use crate::node::notes::Note;
use crate::node::table::Service;
use crate::overlay::neighbours::{self, Neighbours};
use crate::overlay::tree::{Command, Event, Message, Tree, TreeView};
use crate::protocol::Input;
use crate::ticket::ServiceId;
use crate::wire::Framed;
use crate::work::runner::{self, Runner};

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Tree
    }
}

impl Service for Tree {
    const ID: ServiceId = ServiceId::Tree;
    const NAME: &'static str = "tree";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        Some(Tree::new(config.tree.clone()))
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Learnt(swarm) => {
                swarm.degree.into_iter().for_each(|degree| node.tell::<Self>(Command::Degree(degree)));
            }
            _ => {}
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Placed(placement) => {
                // Some of them were connected for another reason before.
                let around = placement.parent.iter().chain(&placement.children).chain(&placement.peers);
                for contact in around {
                    node.holds.hold(ServiceId::Tree, contact.id);
                    node.tell::<Neighbours>(neighbours::Command::Spare(contact.id, false));
                }
                node.tell::<Runner>(runner::Command::Findable(placement.joined));
                node.tell::<Nearest>(nearest::Command::Placed(*placement));
                host.event(NodeEvent::NodesChanged);
            }
            Event::Left => {
                node.tree_left();
                node.tell::<Runner>(runner::Command::Findable(false));
            }
        }
    }
}

pub(in crate::node) fn is_in_tree(node: &Node) -> bool {
    node.tree().is_some_and(|tree| tree.joined())
}

impl Node {
    /// Where this node is in the tree, and whom it knows there; none of a page.
    pub fn tree(&self) -> Option<TreeView<'_>> {
        self.state::<Tree>().map(Tree::view)
    }
}
