//! Checks a whole network from the outside, on plain data.

use super::{Range, TreeView};
use crate::ids::NodeId;
use std::collections::BTreeMap;

/// What is wrong with a tree, in words; nothing if all is well. Loose: what must hold at any
/// time, whatever fails. Strict: what must hold once the network has been quiet for a while.
pub fn check(views: &[TreeView], m: u8, k: u8, strict: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let all = Nodes { by_id: views.iter().filter_map(|v| Some((v.me?.id, v))).collect() };
    for view in views {
        group_is_in_order(view, &mut wrong);
        nobody_is_its_own_ancestor(view, &all, &mut wrong);
    }
    if strict {
        let (m, k) = (usize::from(m), usize::from(k));
        roots_agree(views, &all, k, &mut wrong);
        for view in views {
            everyone_is_at_rest(view, &mut wrong);
            fathers_and_children_agree(view, &all, &mut wrong);
            sizes_are_right(view, m, k, &mut wrong);
        }
        references_are_right(views, k, &mut wrong);
        everyone_is_reachable(views, &all, &mut wrong);
    }
    wrong
}

struct Nodes<'a> {
    by_id: BTreeMap<NodeId, &'a TreeView>,
}

fn name(view: &TreeView) -> String {
    view.me.map_or_else(|| "nobody".into(), |me| me.id.short())
}

fn group_is_in_order(view: &TreeView, wrong: &mut Vec<String>) {
    let mut groups = vec![("children", view.range, &view.children)];
    if let Some(root) = &view.root {
        groups.push(("root group", Some(Range::ALL), &root.members));
    }
    for (what, whole, members) in groups {
        let who = name(view);
        if members.windows(2).any(|w| w[0].0.key() >= w[1].0.key()) {
            wrong.push(format!("{who}: its {what} are out of order"));
        }
        let ranges: Vec<(NodeId, Range)> =
            members.iter().filter_map(|(c, range)| Some((c.id, (*range)?))).collect();
        for (id, range) in &ranges {
            let key = members.iter().find(|(c, _)| c.id == *id).map(|(c, _)| c.key());
            if !key.is_some_and(|key| range.contains(key)) {
                wrong.push(format!("{who}: {} of its {what} lies outside of its own range", id.short()));
            }
        }
        for pair in ranges.windows(2) {
            if pair[0].1.hi != Some(pair[1].1.lo) {
                wrong.push(format!("{who}: the ranges of its {what} do not join at {}", pair[1].0.short()));
            }
        }
        let ends = ranges.first().zip(ranges.last()).map(|(a, b)| Range { lo: a.1.lo, hi: b.1.hi });
        if view.level > 0 && ends.is_some() && ends != whole {
            wrong.push(format!("{who}: the ranges of its {what} do not fill its own"));
        }
    }
}

/// An edge is one that both ends agree upon.
fn father_of<'a>(view: &TreeView, all: &Nodes<'a>) -> Option<&'a TreeView> {
    let father = all.by_id.get(&view.father?.id)?;
    let me = view.me?.id;
    father.children.iter().any(|(c, _)| c.id == me).then_some(*father)
}

fn nobody_is_its_own_ancestor(view: &TreeView, all: &Nodes<'_>, wrong: &mut Vec<String>) {
    let (mut at, mut steps) = (father_of(view, all), 0);
    while let Some(father) = at {
        if father.me == view.me || steps > 64 {
            return wrong.push(format!("{}: is its own ancestor", name(view)));
        }
        steps += 1;
        at = father_of(father, all);
    }
}

fn roots_agree(views: &[TreeView], all: &Nodes<'_>, k: usize, wrong: &mut Vec<String>) {
    let mut roots = views.iter().filter_map(|v| Some((v, v.root.as_ref()?)));
    let Some((first, root)) = roots.next() else {
        if !views.is_empty() {
            wrong.push("there is no root".into());
        }
        return;
    };
    for (view, other) in roots {
        if (other.coordinator, other.term, &other.members) != (root.coordinator, root.term, &root.members) {
            wrong.push(format!("{} and {}: do not know the same root group", name(first), name(view)));
        }
        if view.level != first.level {
            wrong.push(format!("{}: is in the root group at another level", name(view)));
        }
    }
    if root.members.len() > 2 * k {
        wrong.push(format!("the root group has {} members, above 2k", root.members.len()));
    }
    for (member, range) in &root.members {
        let Some(view) = all.by_id.get(&member.id) else {
            wrong.push(format!("the root group has {}, which is gone", member.id.short()));
            continue;
        };
        if view.root.is_none() {
            wrong.push(format!("{}: is in the root group and does not know", name(view)));
        }
        if view.level > 0 && view.range != *range {
            wrong.push(format!("{}: knows another range than the root group's", name(view)));
        }
    }
}

fn everyone_is_at_rest(view: &TreeView, wrong: &mut Vec<String>) {
    if !view.joined {
        wrong.push(format!("{}: is outside of the tree, at level {}", name(view), view.level));
    } else if !view.settled {
        wrong.push(format!("{}: is on its way elsewhere", name(view)));
    }
}

fn fathers_and_children_agree(view: &TreeView, all: &Nodes<'_>, wrong: &mut Vec<String>) {
    let Some(me) = view.me else { return };
    for (child, range) in &view.children {
        let Some(kid) = all.by_id.get(&child.id) else {
            wrong.push(format!("{}: has the child {}, which is gone", name(view), child.id.short()));
            continue;
        };
        if kid.father.map(|f| f.id) != Some(me.id) {
            wrong.push(format!(
                "{}: has the child {}, which has another father",
                name(view),
                child.id.short()
            ));
        }
        if kid.level + 1 != view.level {
            wrong.push(format!(
                "{}: level {} has the child {} at level {}",
                name(view),
                view.level,
                child.id.short(),
                kid.level
            ));
        }
        if kid.level > 0 && kid.range != *range {
            wrong.push(format!("{}: {} knows another range than its father's", name(view), child.id.short()));
        }
        if !view.range.is_some_and(|r| r.contains(child.key())) {
            wrong.push(format!("{}: the child {} lies outside of its range", name(view), child.id.short()));
        }
        let others: Vec<_> = view.children.iter().map(|(c, _)| *c).filter(|c| c.id != child.id).collect();
        if kid.siblings != others {
            let (knows, of) = (kid.siblings.len(), others.len());
            let epochs = format!("{} of {}", kid.epoch, view.children_epoch);
            wrong.push(format!(
                "{}: {} knows {knows} brothers, and not the {of} it has (epoch {epochs})",
                name(view),
                child.id.short()
            ));
        }
        let mut above = vec![];
        above.extend(view.father);
        above.extend(&view.ancestors);
        if kid.ancestors != above {
            wrong.push(format!("{}: {} does not know who is above", name(view), child.id.short()));
        }
    }
    if let Some(father) = view.father {
        let known = all.by_id.get(&father.id).is_some_and(|f| f.children.iter().any(|(c, _)| c.id == me.id));
        if !known {
            wrong.push(format!("{}: its father {} does not know it", name(view), father.id.short()));
        }
    }
    if view.level > 0 && !view.range.is_some_and(|r| r.contains(me.key())) {
        wrong.push(format!("{}: lies outside of its own range", name(view)));
    }
    for id in &view.missing {
        wrong.push(format!("{}: the place of {} is vacant", name(view), id.short()));
    }
}

fn sizes_are_right(view: &TreeView, m: usize, k: usize, wrong: &mut Vec<String>) {
    if view.level == 0 || !view.joined {
        return;
    }
    let count = view.children.len();
    let lone = view.root.as_ref().is_some_and(|r| r.members.len() == 1);
    if lone && count < 2 * k {
        wrong.push(format!("{}: is a lone root with {count} children, below 2k", name(view)));
    }
    if count > 2 * m || count < m && !lone {
        wrong.push(format!("{}: has {count} children at level {}, m = {m}", name(view), view.level));
    }
}

fn references_are_right(views: &[TreeView], k: usize, wrong: &mut Vec<String>) {
    let mut levels: BTreeMap<u8, Vec<&TreeView>> = BTreeMap::new();
    for view in views.iter().filter(|v| v.joined) {
        levels.entry(view.level).or_default().push(view);
    }
    for level in levels.values_mut() {
        level.sort_by_key(|v| v.me.map(|me| me.key()));
        let contacts: Vec<_> = level.iter().filter_map(|v| v.me).collect();
        for (i, view) in level.iter().enumerate() {
            let before: Vec<_> = contacts.iter().take(i).rev().take(k).copied().collect();
            let after: Vec<_> = contacts.iter().skip(i + 1).take(k).copied().collect();
            if view.predecessors != before {
                wrong.push(format!("{}: does not know its predecessors at level {}", name(view), view.level));
            }
            if view.successors != after {
                wrong.push(format!("{}: does not know its successors at level {}", name(view), view.level));
            }
        }
    }
}

fn everyone_is_reachable(views: &[TreeView], all: &Nodes<'_>, wrong: &mut Vec<String>) {
    let mut seen: BTreeMap<NodeId, ()> = BTreeMap::new();
    let mut next: Vec<&TreeView> = views.iter().filter(|v| v.root.is_some()).collect();
    while let Some(view) = next.pop() {
        let Some(me) = view.me else { continue };
        if seen.insert(me.id, ()).is_some() {
            wrong.push(format!("{}: is reached twice", name(view)));
            continue;
        }
        next.extend(view.children.iter().filter_map(|(c, _)| all.by_id.get(&c.id).copied()));
    }
    let lost = views.iter().filter(|v| v.me.is_some_and(|me| !seen.contains_key(&me.id)));
    for view in lost {
        wrong.push(format!("{}: is not reachable from the root", name(view)));
    }
}
