//! The tree of nodes, as far as this gateway knows it.

use super::ApiState;
use super::model::{Names, text};
use super::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use node_core::address::Contact;
use node_core::discovery::nearest::BranchLine;
use node_core::{Node, NodeId};
use serde::Serialize;
use utoipa::ToSchema;

/// Where this gateway is in the tree, and what it knows of the branches around it. No node knows
/// all of the tree.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Tree {
    /// Whether this gateway is in it.
    joined: bool,
    /// Levels below this gateway; 0 for a leaf.
    level: u8,
    me: TreeNode,
    /// From the parent up to a member of the root group.
    above: Vec<TreeNode>,
    /// The other members of its group that are at its level.
    siblings: Vec<TreeNode>,
    /// The other branches of the root group, if this gateway is in it.
    peers: Vec<Branch>,
    /// The branches below.
    children: Vec<Branch>,
    /// Its own branch.
    branch: Free,
    /// Slots of the whole swarm, as far as known; 0 if not.
    network_slots: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TreeNode {
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    id: NodeId,
    /// The id's beginning, for people.
    short: String,
    /// Empty if this gateway never met it.
    name: String,
}

/// Slots of a branch. What is free is told in steps of powers of two, so it is a range.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Free {
    slots: u32,
    free_at_least: u32,
    free_at_most: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Branch {
    #[serde(flatten)]
    top: TreeNode,
    #[serde(flatten)]
    free: Free,
}

/// Look at the tree of nodes.
///
/// It finds idle nodes (docs/protocols/tree.md); open to anybody.
#[utoipa::path(
    get, operation_id = "getTree", path = "/api/v1/tree", tag = "swarm",
    responses(
        (status = 200, body = Tree),
        (status = "default", body = Problem, content_type = "application/problem+json", description = "Any error"),
    )
)]
pub(super) async fn tree(State(state): State<ApiState>) -> Result<Json<Tree>, Problem> {
    let tree = state.node.read(|node, _| Tree::of(node)).await?;
    let none = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "this node has no part in the tree");
    tree.map(Json).ok_or_else(none)
}

impl Tree {
    /// None of a node that is always a guest.
    fn of(node: &Node) -> Option<Tree> {
        let (names, view, branch) = (Names::of(node), node.tree()?, node.branch()?);
        let named = |id: NodeId| TreeNode { id, short: id.short(), name: names.get(id) };
        let of = |contact: &Contact| named(contact.id);
        let lines = |lines: &[BranchLine]| {
            let free = |line: &BranchLine| Free {
                slots: line.slots,
                free_at_least: line.low,
                free_at_most: line.high,
            };
            lines.iter().map(|line| Branch { top: named(line.node), free: free(line) }).collect()
        };
        Some(Tree {
            joined: view.joined(),
            level: view.level(),
            me: named(node.id()),
            above: view.parent().iter().chain(view.ancestors()).map(of).collect(),
            siblings: if view.root().is_some() {
                Vec::new()
            } else {
                view.siblings().map(|c| named(c.id)).collect()
            },
            peers: lines(&branch.peers),
            children: lines(&branch.children),
            branch: Free {
                slots: branch.branch_slots,
                free_at_least: branch.branch_low,
                free_at_most: branch.branch_high,
            },
            network_slots: branch.network_slots,
        })
    }
}
