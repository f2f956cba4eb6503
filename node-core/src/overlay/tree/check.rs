//! Checks a whole network from the outside.

use super::{Range, TreeView};
use crate::address::Contact;
use crate::ids::NodeId;
use std::collections::BTreeMap;

/// Complaints that are kept: while a network of a million grows, all of it is wrong.
const KEPT: usize = 1000;

/// Describes the faults of a tree in words, the first 1000; empty if there are none. Loose: checks that hold
/// at any time, whatever fails. Strict: also checks that hold once the network has been quiet for a while.
pub fn check(views: &[TreeView<'_>], m: u8, k: u8, strict: bool) -> Vec<String> {
    let mut wrong = Wrong::default();
    let all = Nodes::of(views);
    for view in views {
        group_is_in_order(*view, &mut wrong);
    }
    nobody_is_its_own_ancestor(&all, &mut wrong);
    if strict {
        let (m, k) = (usize::from(m), usize::from(k));
        roots_agree(&all, k, &mut wrong);
        for view in views.iter().copied() {
            if wrong.is_full() {
                return wrong.0;
            }
            everyone_is_at_rest(view, &mut wrong);
            parents_and_children_agree(view, &all, &mut wrong);
            sizes_are_right(view, m, k, &mut wrong);
        }
        references_are_right(views, k, &mut wrong);
        everyone_is_reachable(&all, &mut wrong);
    }
    wrong.0
}

#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn push(&mut self, what: String) {
        if !self.is_full() {
            self.0.push(what);
        }
    }

    fn is_full(&self) -> bool {
        self.0.len() >= KEPT
    }
}

struct Nodes<'a> {
    views: &'a [TreeView<'a>],
    /// Where each of them is in `views`, in order.
    by_id: Vec<(NodeId, u32)>,
}

impl<'a> Nodes<'a> {
    fn of(views: &'a [TreeView<'a>]) -> Nodes<'a> {
        let ids = views.iter().zip(0..).filter_map(|(view, at)| Some((view.me()?.id, at)));
        let mut by_id: Vec<(NodeId, u32)> = ids.collect();
        by_id.sort_unstable();
        Nodes { views, by_id }
    }

    fn find(&self, id: NodeId) -> Option<usize> {
        let at = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.by_id.get(at).map(|(_, at)| *at as usize)
    }

    fn get(&self, id: NodeId) -> Option<TreeView<'a>> {
        self.views.get(self.find(id)?).copied()
    }
}

fn name(view: TreeView<'_>) -> String {
    view.me().map_or_else(|| "nobody".into(), |me| me.id.short())
}

fn group_is_in_order(view: TreeView<'_>, wrong: &mut Wrong) {
    members_are_in_order(view, "children", view.range(), view.children(), wrong);
    if let Some(root) = view.root() {
        members_are_in_order(view, "root group", Some(Range::ALL), root.members(), wrong);
    }
}

fn members_are_in_order(
    view: TreeView<'_>,
    what: &str,
    whole: Option<Range>,
    members: impl Iterator<Item = (Contact, Option<Range>)>,
    wrong: &mut Wrong,
) {
    let mut complain = |text: String| wrong.push(format!("{}: {text}", name(view)));
    let mut before: Option<Contact> = None;
    let mut filled: Option<Range> = None;
    for (member, range) in members {
        if before.is_some_and(|before| before.key() >= member.key()) {
            complain(format!("its {what} are out of order"));
        }
        before = Some(member);
        let Some(range) = range else { continue };
        if !range.contains(member.key()) {
            complain(format!("{} of its {what} lies outside of its own range", member.id.short()));
        }
        if filled.is_some_and(|filled| filled.hi != Some(range.lo)) {
            complain(format!("the ranges of its {what} do not join at {}", member.id.short()));
        }
        filled = Some(Range { lo: filled.map_or(range.lo, |filled| filled.lo), hi: range.hi });
    }
    if view.level() > 0 && filled.is_some() && filled != whole {
        complain(format!("the ranges of its {what} do not fill its own"));
    }
}

/// An edge counts if both ends agree upon it.
fn nobody_is_its_own_ancestor(all: &Nodes<'_>, wrong: &mut Wrong) {
    #[derive(Clone, Copy, PartialEq)]
    enum Way {
        Unknown,
        Up,
        Ends,
    }
    let mut ways = vec![Way::Unknown; all.views.len()];
    let mut path = Vec::new();
    for start in 0..all.views.len() {
        let mut at = Some(start);
        while let Some(here) = at {
            match ways[here] {
                Way::Ends => break,
                Way::Up => {
                    wrong.push(format!("{}: is its own ancestor", name(all.views[here])));
                    break;
                }
                Way::Unknown => {
                    ways[here] = Way::Up;
                    path.push(here);
                    at = parent_of(here, all);
                }
            }
        }
        path.drain(..).for_each(|here| ways[here] = Way::Ends);
    }
}

fn parent_of(at: usize, all: &Nodes<'_>) -> Option<usize> {
    let view = all.views[at];
    let (parent, me) = (all.find(view.parent()?.id)?, view.me()?.id);
    all.views[parent].children().any(|(c, _)| c.id == me).then_some(parent)
}

fn roots_agree(all: &Nodes<'_>, k: usize, wrong: &mut Wrong) {
    let mut roots = all.views.iter().filter_map(|v| Some((*v, v.root()?)));
    let Some((first, root)) = roots.next() else {
        if !all.views.is_empty() {
            wrong.push("there is no root".into());
        }
        return;
    };
    for (view, other) in roots {
        let same = (other.coordinator(), other.term()) == (root.coordinator(), root.term());
        if !same || !other.members().eq(root.members()) {
            wrong.push(format!("{} and {}: do not know the same root group", name(first), name(view)));
        }
        if view.level() != first.level() {
            wrong.push(format!("{}: is in the root group at another level", name(view)));
        }
    }
    let count = root.members().count();
    if count > 2 * k {
        wrong.push(format!("the root group has {count} members, above 2k"));
    }
    for (member, range) in root.members() {
        let Some(view) = all.get(member.id) else {
            wrong.push(format!("the root group has {}, which is gone", member.id.short()));
            continue;
        };
        if view.root().is_none() {
            wrong.push(format!("{}: is in the root group and does not know", name(view)));
        }
        if view.level() > 0 && view.range() != range {
            wrong.push(format!("{}: knows another range than the root group's", name(view)));
        }
    }
}

fn everyone_is_at_rest(view: TreeView<'_>, wrong: &mut Wrong) {
    if !view.joined() {
        wrong.push(format!("{}: is outside of the tree, at level {}", name(view), view.level()));
    } else if !view.settled() {
        wrong.push(format!("{}: is on its way elsewhere", name(view)));
    }
}

fn parents_and_children_agree(view: TreeView<'_>, all: &Nodes<'_>, wrong: &mut Wrong) {
    let Some(me) = view.me() else { return };
    for (child, range) in view.children() {
        let Some(at_child) = all.get(child.id) else {
            wrong.push(format!("{}: has the child {}, which is gone", name(view), child.id.short()));
            continue;
        };
        if at_child.parent().map(|f| f.id) != Some(me.id) {
            wrong.push(format!(
                "{}: has the child {}, which has another parent",
                name(view),
                child.id.short()
            ));
        }
        if at_child.level() + 1 != view.level() {
            wrong.push(format!(
                "{}: level {} has the child {} at level {}",
                name(view),
                view.level(),
                child.id.short(),
                at_child.level()
            ));
        }
        if at_child.level() > 0 && at_child.range() != range {
            wrong.push(format!("{}: {} knows another range than its parent's", name(view), child.id.short()));
        }
        if !view.range().is_some_and(|r| r.contains(child.key())) {
            wrong.push(format!("{}: the child {} lies outside of its range", name(view), child.id.short()));
        }
        let others = || view.children().map(|(c, _)| c).filter(|c| c.id != child.id);
        if !at_child.siblings().eq(others()) {
            let (knows, of) = (at_child.siblings().count(), others().count());
            let epochs = format!("{} of {}", at_child.epoch(), view.children_epoch());
            wrong.push(format!(
                "{}: {} knows {knows} siblings, and not the {of} it has (epoch {epochs})",
                name(view),
                child.id.short()
            ));
        }
        if !at_child.ancestors().iter().eq(view.parent().iter().chain(view.ancestors())) {
            wrong.push(format!("{}: {} does not know who is above", name(view), child.id.short()));
        }
    }
    if let Some(parent) = view.parent() {
        let known = all.get(parent.id).is_some_and(|f| f.children().any(|(c, _)| c.id == me.id));
        if !known {
            wrong.push(format!("{}: its parent {} does not know it", name(view), parent.id.short()));
        }
    }
    if view.level() > 0 && !view.range().is_some_and(|r| r.contains(me.key())) {
        wrong.push(format!("{}: lies outside of its own range", name(view)));
    }
    for id in view.missing() {
        wrong.push(format!("{}: the place of {} is vacant", name(view), id.short()));
    }
}

fn sizes_are_right(view: TreeView<'_>, m: usize, k: usize, wrong: &mut Wrong) {
    if view.level() == 0 || !view.joined() {
        return;
    }
    let count = view.children().count();
    let lone = view.root().is_some_and(|r| r.members().count() == 1);
    if lone && count < 2 * k {
        wrong.push(format!("{}: is a lone root with {count} children, below 2k", name(view)));
    }
    if count > 2 * m || count < m && !lone {
        wrong.push(format!("{}: has {count} children at level {}, m = {m}", name(view), view.level()));
    }
}

fn references_are_right(views: &[TreeView<'_>], k: usize, wrong: &mut Wrong) {
    let mut levels: BTreeMap<u8, Vec<(Contact, TreeView<'_>)>> = BTreeMap::new();
    for view in views.iter().filter(|v| v.joined()) {
        levels.entry(view.level()).or_default().extend(view.me().map(|me| (me, *view)));
    }
    for level in levels.values_mut() {
        level.sort_unstable_by_key(|(me, _)| me.key());
        for (i, (_, view)) in level.iter().enumerate() {
            let before = level[..i].iter().rev().take(k).map(|(me, _)| *me);
            let after = level[i + 1..].iter().take(k).map(|(me, _)| *me);
            let at = |which: &str| format!("{}: does not know its {which}", name(*view));
            if !view.predecessors().eq(before) {
                wrong.push(format!("{} at level {}", at("predecessors"), view.level()));
            }
            if !view.successors().eq(after) {
                wrong.push(format!("{} at level {}", at("successors"), view.level()));
            }
        }
    }
}

fn everyone_is_reachable(all: &Nodes<'_>, wrong: &mut Wrong) {
    let mut seen = vec![false; all.views.len()];
    let mut next: Vec<usize> = (0..all.views.len()).filter(|at| all.views[*at].root().is_some()).collect();
    while let Some(at) = next.pop() {
        if std::mem::replace(&mut seen[at], true) {
            wrong.push(format!("{}: is reached twice", name(all.views[at])));
            continue;
        }
        next.extend(all.views[at].children().filter_map(|(c, _)| all.find(c.id)));
    }
    for (view, seen) in all.views.iter().zip(seen) {
        if !seen && view.me().is_some() {
            wrong.push(format!("{}: is not reachable from the root", name(*view)));
        }
    }
}
