//! Zones: half-open boxes of the space, and the points in it.

use crate::capability::Capability;
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};

/// Dimensions: the three sizes of a [`Capability`] in their order, and the virtual one.
pub const DIMS: usize = 4;

/// Dimensions of resources, which come first.
pub const RESOURCES: usize = 3;

/// The virtual dimension. It alone wraps: more than the largest size is not less than the smallest.
pub const VIRTUAL: usize = 3;

/// Coordinates are below this. Our choice: 31 bits, so that the volume of the whole space, 2^124, is a number.
pub const EDGE: u32 = 1 << 31;

/// Bits of a coordinate below the octave: sizes of one octave, as 64 to 127 MiB, are told apart to 2^-26.
const OCTAVE: u32 = 26;

/// A point of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Coords(pub [u32; DIMS]);

impl Coords {
    /// Point of these needs or capabilities at `virt`, which is taken modulo [`EDGE`].
    pub fn of(capability: &Capability, virt: u32) -> Coords {
        let [memory, speed, disk] = capability.sizes().map(coordinate);
        Coords([memory, speed, disk, virt % EDGE])
    }

    /// Point of a node: the virtual coordinate is drawn by its id, so that others can check it. `salt` gives another
    /// one when two equal nodes have drawn the same.
    pub fn of_node(id: NodeId, capability: &Capability, salt: u8) -> Coords {
        let mut hasher = blake3::Hasher::new_derive_key("manyhands 2026-11 virtual coordinate of a node");
        let hash = hasher.update(&id.0).update(&[salt]).finalize();
        let virt = hash.as_bytes().first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
        Coords::of(capability, virt)
    }

    /// The point with one coordinate replaced.
    pub fn with(mut self, dim: usize, at: u32) -> Coords {
        self.0[dim] = at;
        self
    }
}

/// Coordinate of a size: its binary logarithm, linear within an octave. *Departure:* paper `match` does not say how
/// sizes become coordinates. A fixed map needs no agreement on a maximum, and double is as far from single everywhere.
fn coordinate(size: u32) -> u32 {
    let size = size.saturating_add(1);
    let octave = 31 - size.leading_zeros();
    let within = ((size << (31 - octave)) & (EDGE - 1)) >> (31 - OCTAVE);
    octave << OCTAVE | within
}

/// How far one step in a dimension counts: 8 octaves of a size are as far as all of the virtual dimension. Our choice:
/// sizes of nodes of one swarm differ by some octaves.
fn weight(dim: usize) -> u64 {
    if dim == VIRTUAL { 1 } else { 4 }
}

/// A face of a zone: across it, this coordinate is greater (`up`) or smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Face {
    pub dim: usize,
    pub up: bool,
}

impl Face {
    pub fn all() -> impl Iterator<Item = Face> {
        (0..DIMS).flat_map(|dim| [false, true].map(|up| Face { dim, up }))
    }
}

/// A box: in each dimension the coordinates from `lo` on and below `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Zone {
    pub lo: Coords,
    pub hi: Coords,
}

impl Zone {
    /// The whole space.
    pub const WHOLE: Zone = Zone { lo: Coords([0; DIMS]), hi: Coords([EDGE; DIMS]) };

    /// Whether it has a volume and lies within the space.
    pub fn is_valid(&self) -> bool {
        (0..DIMS).all(|dim| self.lo.0[dim] < self.hi.0[dim] && self.hi.0[dim] <= EDGE)
    }

    pub fn contains(&self, at: Coords) -> bool {
        (0..DIMS).all(|dim| (self.lo.0[dim]..self.hi.0[dim]).contains(&at.0[dim]))
    }

    fn width(&self, dim: usize) -> u32 {
        self.hi.0[dim] - self.lo.0[dim]
    }

    /// Number of its points, 2^124 at most.
    pub fn volume(&self) -> u128 {
        (0..DIMS).map(|dim| u128::from(self.width(dim))).product()
    }

    /// The part that both have; none if they have no point in common.
    pub fn overlap(&self, other: &Zone) -> Option<Zone> {
        let lo = Coords(std::array::from_fn(|dim| self.lo.0[dim].max(other.lo.0[dim])));
        let hi = Coords(std::array::from_fn(|dim| self.hi.0[dim].min(other.hi.0[dim])));
        Some(Zone { lo, hi }).filter(Zone::is_valid)
    }

    /// Number of unit squares of `face` behind which `other` lies directly: 0 if it does not. `wraps`: also over the
    /// end of the virtual dimension.
    fn shared(&self, other: &Zone, face: Face, wraps: bool) -> u128 {
        let (mine, its) = match face.up {
            true => (self.hi.0[face.dim], other.lo.0[face.dim]),
            false => (self.lo.0[face.dim], other.hi.0[face.dim]),
        };
        let over = wraps && face.dim == VIRTUAL && (mine, its) == if face.up { (EDGE, 0) } else { (0, EDGE) };
        if mine != its && !over {
            return 0;
        }
        let across = (0..DIMS).filter(|dim| *dim != face.dim);
        let common = across.map(|dim| {
            let (lo, hi) = (self.lo.0[dim].max(other.lo.0[dim]), self.hi.0[dim].min(other.hi.0[dim]));
            u128::from(hi.saturating_sub(lo))
        });
        common.product()
    }

    /// Area of `face` that the other zone is behind, over the end of the virtual dimension, too.
    pub fn shared_face(&self, other: &Zone, face: Face) -> u128 {
        self.shared(other, face, true)
    }

    /// Area of a face of this dimension.
    pub fn face_area(&self, dim: usize) -> u128 {
        (0..DIMS).filter(|other| *other != dim).map(|dim| u128::from(self.width(dim))).product()
    }

    /// Whether the zones share a part of a face.
    pub fn abuts(&self, other: &Zone) -> bool {
        Face::all().any(|face| self.shared_face(other, face) > 0)
    }

    /// The slab one unit thick behind `face`, over the end of the virtual dimension, too; none at the end of the space.
    pub fn beyond(&self, face: Face) -> Option<Zone> {
        let mut slab = *self;
        let (lo, hi) = (&mut slab.lo.0[face.dim], &mut slab.hi.0[face.dim]);
        *lo = match face.up {
            true if *hi < EDGE => *hi,
            true if face.dim == VIRTUAL => 0,
            false if *lo > 0 => *lo - 1,
            false if face.dim == VIRTUAL => EDGE - 1,
            _ => return None,
        };
        *hi = *lo + 1;
        Some(slab)
    }

    /// The part of this zone that `other`, which lies behind `face` of it, would take in by growing across: none
    /// unless it abuts with a whole face of its own.
    pub fn slab_for(&self, other: &Zone, face: Face) -> Option<Zone> {
        let area = self.shared(other, face, false);
        if area == 0 || area != other.face_area(face.dim) {
            return None;
        }
        let mut slab = *other;
        (slab.lo.0[face.dim], slab.hi.0[face.dim]) = (self.lo.0[face.dim], self.hi.0[face.dim]);
        Some(slab)
    }

    /// Both as one zone, if that is a box.
    pub fn join(&self, other: &Zone) -> Option<Zone> {
        let face = Face::all().find(|face| self.shared(other, *face, false) > 0)?;
        let area = self.shared(other, face, false);
        if area != self.face_area(face.dim) || area != other.face_area(face.dim) {
            return None;
        }
        let lo = Coords(std::array::from_fn(|dim| self.lo.0[dim].min(other.lo.0[dim])));
        let hi = Coords(std::array::from_fn(|dim| self.hi.0[dim].max(other.hi.0[dim])));
        Some(Zone { lo, hi })
    }

    /// The rest of it without the other one: up to 8 boxes.
    pub fn minus(&self, other: &Zone) -> Vec<Zone> {
        let Some(hole) = self.overlap(other) else { return vec![*self] };
        let (mut rest, mut parts) = (*self, Vec::new());
        for dim in 0..DIMS {
            if rest.lo.0[dim] < hole.lo.0[dim] {
                parts.push(Zone { hi: rest.hi.with(dim, hole.lo.0[dim]), ..rest });
            }
            if hole.hi.0[dim] < rest.hi.0[dim] {
                parts.push(Zone { lo: rest.lo.with(dim, hole.hi.0[dim]), ..rest });
            }
            (rest.lo.0[dim], rest.hi.0[dim]) = (hole.lo.0[dim], hole.hi.0[dim]);
        }
        parts
    }

    /// The rest of it without any of these; `most` boxes at most, the surplus is dropped.
    pub fn minus_all<'a>(&self, others: impl IntoIterator<Item = &'a Zone>, most: usize) -> Vec<Zone> {
        let mut parts = vec![*self];
        for other in others {
            if parts.iter().any(|part| part.overlap(other).is_some()) {
                parts = parts.iter().flat_map(|part| part.minus(other)).collect();
                parts.truncate(most);
            }
        }
        parts
    }

    /// Cuts it between two of its points, halfway in the dimension in which they are farthest apart for their
    /// `weight`: first the part with `mine`, then the one with `theirs`. None if the points are the same. *Departure:*
    /// the original CAN cuts through the middle, in one dimension after another, which leaves nodes outside their zones.
    pub fn between(&self, mine: Coords, theirs: Coords) -> Option<(Zone, Zone)> {
        let gap = |dim: usize| u64::from(mine.0[dim].abs_diff(theirs.0[dim])) * weight(dim);
        let dim = (0..DIMS).max_by_key(|dim| gap(*dim)).filter(|dim| gap(*dim) > 0)?;
        let (low, high) = (mine.0[dim].min(theirs.0[dim]), mine.0[dim].max(theirs.0[dim]));
        let cut = low + (high - low).div_ceil(2);
        let below = Zone { hi: self.hi.with(dim, cut), ..*self };
        let above = Zone { lo: self.lo.with(dim, cut), ..*self };
        Some(if mine.0[dim] < cut { (below, above) } else { (above, below) })
    }

    /// How far it is from a point, 0 if it contains it: the sum over the dimensions, each with its `weight`.
    pub fn distance(&self, at: Coords) -> u64 {
        let one = |dim: usize| {
            let (lo, hi, at) = (self.lo.0[dim], self.hi.0[dim] - 1, at.0[dim]);
            if (lo..=hi).contains(&at) {
                return 0;
            }
            let (below, above) = (lo.abs_diff(at), at.abs_diff(hi));
            let apart = below.min(above);
            // The other way round leads over the end.
            let apart = if dim == VIRTUAL { apart.min(EDGE - below.max(above)) } else { apart };
            u64::from(apart) * weight(dim)
        };
        (0..DIMS).map(one).sum()
    }

    /// Its point that is nearest to this one.
    pub fn nearest(&self, at: Coords) -> Coords {
        Coords(std::array::from_fn(|dim| at.0[dim].clamp(self.lo.0[dim], self.hi.0[dim] - 1)))
    }

    /// Whether points of it have all the resources of `needs`.
    pub fn reaches(&self, needs: Coords) -> bool {
        (0..RESOURCES).all(|dim| self.hi.0[dim] > needs.0[dim])
    }

    /// Resources of which all its points have what is needed, 0 to 3.
    pub fn surely(&self, needs: Coords) -> usize {
        (0..RESOURCES).filter(|dim| self.lo.0[*dim] >= needs.0[*dim]).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Rng;

    fn point(rng: &mut Rng, in_zone: &Zone) -> Coords {
        let one = |dim: usize| {
            in_zone.lo.0[dim] + rng.below(u64::from(in_zone.hi.0[dim] - in_zone.lo.0[dim])) as u32
        };
        let mut one = one;
        Coords(std::array::from_fn(&mut one))
    }

    /// A zone within this one, often with a face of its own on a face of it.
    fn part(rng: &mut Rng, of: &Zone) -> Zone {
        let (a, b) = (point(rng, of), point(rng, of));
        let mut part = Zone {
            lo: Coords(std::array::from_fn(|dim| a.0[dim].min(b.0[dim]))),
            hi: Coords(std::array::from_fn(|dim| a.0[dim].max(b.0[dim]) + 1)),
        };
        for face in Face::all().filter(|_| rng.below(3) == 0) {
            match face.up {
                true => part.hi.0[face.dim] = of.hi.0[face.dim],
                false => part.lo.0[face.dim] = of.lo.0[face.dim],
            }
        }
        part
    }

    fn tile(parts: &[Zone], whole: &Zone) {
        assert_eq!(parts.iter().map(Zone::volume).sum::<u128>(), whole.volume());
        for (at, one) in parts.iter().enumerate() {
            assert!(one.is_valid() && one.overlap(whole) == Some(*one));
            assert!(parts[..at].iter().all(|other| other.overlap(one).is_none()));
        }
    }

    #[test]
    fn larger_sizes_have_larger_coordinates() {
        let mut rng = Rng::from_seed([1; 32]);
        for _ in 0..10_000 {
            let size = rng.below(1 << 32) as u32 >> rng.below(32);
            assert!(coordinate(size) <= coordinate(size.saturating_add(1)) && coordinate(size) < EDGE);
            assert!(size >= 1 << 25 || coordinate(size) < coordinate(size + 1));
        }
        assert_eq!((coordinate(0), coordinate(1), coordinate(u32::MAX)), (0, 1 << OCTAVE, EDGE - 1));
        assert_eq!(coordinate(7) - coordinate(3), coordinate(1023) - coordinate(511));
    }

    #[test]
    fn a_zone_is_cut_between_its_two_points_and_is_whole_again_when_joined() {
        let mut rng = Rng::from_seed([2; 32]);
        for _ in 0..2_000 {
            let zone = part(&mut rng, &Zone::WHOLE);
            let (mine, theirs) = (point(&mut rng, &zone), point(&mut rng, &zone));
            let Some((a, b)) = zone.between(mine, theirs) else {
                assert_eq!(mine, theirs);
                continue;
            };
            assert!(a.contains(mine) && b.contains(theirs));
            tile(&[a, b], &zone);
            assert!(a.abuts(&b) && a.join(&b) == Some(zone) && b.join(&a) == Some(zone));
        }
        assert_eq!(Zone::WHOLE.between(Coords([5; 4]), Coords([5; 4])), None);
        let apart = |dim| Zone::WHOLE.between(Coords([5; 4]), Coords([5; 4]).with(dim, 6)).unwrap();
        assert_eq!(apart(2).1.lo, Coords([0; 4]).with(2, 6), "points side by side");
    }

    #[test]
    fn a_zone_without_others_is_what_neither_has() {
        let mut rng = Rng::from_seed([3; 32]);
        for _ in 0..2_000 {
            let zone = part(&mut rng, &Zone::WHOLE);
            let (a, b) = (part(&mut rng, &Zone::WHOLE), part(&mut rng, &zone));
            let mut parts = zone.minus(&a);
            parts.extend(zone.overlap(&a));
            tile(&parts, &zone);
            let rest = zone.minus_all([&a, &b], 100);
            assert!(rest.iter().all(|one| one.overlap(&a).is_none() && one.overlap(&b).is_none()));
            let inside = point(&mut rng, &zone);
            let is_left = !a.contains(inside) && !b.contains(inside);
            assert_eq!(rest.iter().filter(|one| one.contains(inside)).count(), usize::from(is_left));
        }
    }

    #[test]
    fn neighbours_share_a_face_also_over_the_end_of_the_virtual_dimension_only() {
        let (left, right) = Zone::WHOLE.between(Coords([0; 4]), Coords([0, 0, 0, 9])).unwrap();
        let (up, down) = (Face { dim: VIRTUAL, up: true }, Face { dim: VIRTUAL, up: false });
        assert_eq!(left.shared_face(&right, up), left.face_area(VIRTUAL));
        assert_eq!(left.shared_face(&right, down), left.face_area(VIRTUAL), "around");
        let (low, high) = Zone::WHOLE.between(Coords([0; 4]), Coords([9, 0, 0, 0])).unwrap();
        assert_eq!(low.shared_face(&high, Face { dim: 0, up: false }), 0);
        assert_eq!(low.beyond(Face { dim: 0, up: false }), None);
        assert!(left.beyond(down).is_some_and(|slab| slab.overlap(&right) == Some(slab)));
        let (corner, other) = (high.overlap(&right).unwrap(), low.overlap(&left).unwrap());
        assert!(!corner.abuts(&other), "an edge in common is no face");
    }

    #[test]
    fn from_each_zone_a_step_toward_the_point_leads_nearer() {
        let mut rng = Rng::from_seed([4; 32]);
        for _ in 0..5_000 {
            let zone = part(&mut rng, &Zone::WHOLE);
            let to = point(&mut rng, &Zone::WHOLE);
            let far = zone.distance(to);
            assert_eq!(far == 0, zone.contains(to));
            let beyond = Face::all().filter_map(|face| zone.beyond(face));
            let nearest = beyond.map(|slab| slab.distance(to)).min();
            assert!(far == 0 || nearest < Some(far), "greedy routes end");
            let nearest = zone.nearest(to);
            assert!(zone.contains(nearest));
        }
    }

    #[test]
    fn neighbours_of_one_side_grow_over_a_zone_without_a_gap() {
        let mut rng = Rng::from_seed([5; 32]);
        for _ in 0..300 {
            let (gone, mut sibling) = loop {
                let points = (point(&mut rng, &Zone::WHOLE), point(&mut rng, &Zone::WHOLE));
                if let Some(cut) = Zone::WHOLE.between(points.0, points.1) {
                    break (cut.0, vec![cut.1]);
                }
            };
            for _ in 0..20 {
                let at = rng.below(sibling.len() as u64) as usize;
                let (a, b) = (point(&mut rng, &sibling[at]), point(&mut rng, &sibling[at]));
                if let Some((a, b)) = sibling[at].between(a, b) {
                    sibling[at] = a;
                    sibling.push(b);
                }
            }
            let face = Face::all().find(|face| gone.shared(&sibling[0], *face, false) > 0);
            let face = face.or_else(|| {
                Face::all().find(|face| sibling.iter().any(|one| gone.shared(one, *face, false) > 0))
            });
            let face = face.unwrap();
            let slabs: Vec<_> = sibling.iter().filter_map(|one| gone.slab_for(one, face)).collect();
            tile(&slabs, &gone);
            let grown = sibling.iter().filter(|one| gone.shared(one, face, false) > 0);
            for one in grown {
                let slab = gone.slab_for(one, face).unwrap();
                assert!(one.join(&slab).is_some());
            }
        }
    }
}
