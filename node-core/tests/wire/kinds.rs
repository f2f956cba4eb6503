//! Every kind of message has an example among the golden bytes.
//!
//! `kinds!` writes the names of an enum's variants twice: into a match without wildcard, so that this file does
//! not compile until a new kind stands in it, and into a list, which the examples have to cover.

use super::*;
use node_core::discovery::{fitting, random};
use node_core::overlay::can;
use node_core::overlay::circuits::{self, Piece, Refusal};
use node_core::overlay::guests::{self, ToGuest, ToRelay};
use node_core::overlay::rn_tree;
use node_core::overlay::signalling::{self, Over};
use node_core::{files, ledger, market, records};
use std::collections::BTreeSet;

/// A message, or a part of one, that is of several kinds.
trait Kinds {
    /// Path of every kind, as in `Work ToOwner Running`.
    fn all() -> Vec<String>;

    fn kind(&self) -> String;
}

fn below(branch: &str, kinds: Vec<String>) -> impl Iterator<Item = String> {
    kinds.into_iter().map(move |kind| format!("{branch} {kind}"))
}

/// Variants without kinds below them, then variants with: `Name.field: Type`.
macro_rules! kinds {
    ($type:ty: $($leaf:ident)* $(; $($branch:ident.$field:tt: $inner:ty),+)?) => {
        impl Kinds for $type {
            fn all() -> Vec<String> {
                let leaves: Vec<String> = vec![$(stringify!($leaf).into()),*];
                let all = leaves.into_iter();
                $($(let all = all.chain(below(stringify!($branch), <$inner>::all()));)+)?
                all.collect()
            }

            fn kind(&self) -> String {
                match self {
                    $(Self::$leaf { .. } => stringify!($leaf).into(),)*
                    $($(Self::$branch { $field: inner, .. } => {
                        format!("{} {}", stringify!($branch), inner.kind())
                    })+)?
                }
            }
        }
    };
}

kinds!(Message:
    Offer;
    Neighbours.0: Greeting,
    Work.0: Work,
    Store.0: Content,
    DialBack.0: dialback::Message,
    Tree.0: tree::Message,
    Nearest.0: nearest::Message,
    Random.0: random::Message,
    Ring.0: ring::Message,
    Market.0: market::Message,
    Ledger.0: ledger::Message,
    Records.0: records::Message,
    Files.0: files::Message,
    Guests.0: guests::Message,
    Signalling.0: signalling::Message,
    Circuits.0: circuits::Message,
    RnTree.0: rn_tree::Message,
    Fitting.0: fitting::Message,
    Can.0: can::Message
);
kinds!(Greeting: Hello Rejected Full Swarm Dialable);
kinds!(dialback::Message: Ask; Answer.outcome: Outcome);
kinds!(Outcome: Reached NotReached Busy Unable);
kinds!(Content: GetTree Get Tree Chunk Missing Busy);
kinds!(Work: ; ToOwner.0: ToOwner, ToRunner.0: ToRunner, ToClient.0: ToClient, ToKeeper.0: ToKeeper, Delegated.0: delegated::Message);
kinds!(ToOwner:
    Submit Cancel Heartbeat Report Decline NotBegun OfAnother Checkpoints Suspended Immobile Prepared Resumed Running
    Unusable Returned NeedKeepers Kept Holding IsGranted Said
);
kinds!(ToRunner:
    Grant Ack NotWritten LeaseOver Revoke Prepare NotComing Suspend Pause Forget Recorded Keepers Kept Keeping
    KeepRefused Successors Claim Letters Checkpoint);
kinds!(ToClient: Accepted Refused Ended NotStored);
kinds!(ToKeeper: Keep Drop Granted);
kinds!(delegated::Message: Entrust Refused Owned Lives Handed Results Over);
kinds!(tree::Message:
    Join Welcome TooTall Tell Refresh NotMine Leave Resign Move Update RequestLeaf Redistribute Merge Underflow Root Abdicate Probe Found);
kinds!(nearest::Message: Status Above Ask Answer Refuse Gone Places Taken Ack NotFound Reserve Release);
kinds!(random::Message: Walk Here Over);
kinds!(ring::Message: Find Next Mine Beat Come Same Around Leave Bye Ask Told);
kinds!(market::Message: ;
    ToOwner.0: market::ToOwner, ToSeller.0: market::ToSeller, ToBuyer.0: market::ToBuyer);
kinds!(market::ToOwner:
    List Withdraw Alive Query Enter Copy Compare Pull Here Others Door Look);
kinds!(market::ToSeller: Listed Refused Probe Take);
kinds!(market::ToBuyer: Alive Entry Taken Gone Summary; Answer.0: market::Answer);
kinds!(market::Outcome: Sale Costs None NotMine Busy);
kinds!(signalling::Message: Said; Over.why: Over);
kinds!(Over: Refused Busy Failed);
kinds!(circuits::Message: ; ToRelay.0: circuits::ToRelay, ToEnd.0: circuits::ToEnd);
kinds!(circuits::ToRelay: Open; On.piece: Piece);
kinds!(circuits::ToEnd: Opened Incoming; Refused.why: Refusal, On.piece: Piece);
kinds!(fitting::Message: NotHere; ToMeeting.0: fitting::ToMeeting, ToNode.0: fitting::ToNode, ToOwner.0: fitting::ToOwner);
kinds!(fitting::ToMeeting: Mark Unmark Seek Leave Ask Shares);
kinds!(fitting::ToNode: Lines Given Unfit);
kinds!(fitting::ToOwner: Claim Queue);
kinds!(can::Message:
    Zones Beat Leave Give Return Disputed Welcome Occupied Outside Walk Over AskFinger Finger Sketch Steal);
kinds!(rn_tree::Message: Child NotParent Whole Walk Over);
kinds!(Piece: Data Room Close);
kinds!(Refusal: NotRelaying NotHere Full);
kinds!(guests::Message: ; ToRelay.0: ToRelay, ToGuest.0: ToGuest);
kinds!(ToRelay: Forward Locate Balance Chosen Load);
kinds!(ToGuest: Relay Forwarded Gone Owner Balance Second);
kinds!(ledger::Message: ; ToBank.0: ledger::ToBank, ToClient.0: ledger::ToClient);
kinds!(ledger::ToBank: Stand Orders Holdings Statement Balance);
kinds!(ledger::ToClient: Stands Outcomes Holdings Statement Balance Receipts);
kinds!(records::Message: Put Done Get Have Copies Compare Pull);
kinds!(files::Message: ; ToKeeper.0: files::ToKeeper, ToOwner.0: files::ToOwner);
kinds!(files::ToKeeper: Ask Keep Audit Drop);
kinds!(files::ToOwner: Room Keeping Kept Refused Proof Holding);

/// An answer of a market is as many kinds as it has outcomes.
impl Kinds for market::Answer {
    fn all() -> Vec<String> {
        market::Outcome::all()
    }

    fn kind(&self) -> String {
        self.what.kind()
    }
}

#[test]
fn every_kind_of_message_has_an_example() {
    let shown: BTreeSet<String> = examples().iter().map(Kinds::kind).collect();
    let all: BTreeSet<String> = Message::all().into_iter().collect();
    assert!(all.is_superset(&shown), "a match names each kind as the list does");
    let missing: Vec<&String> = all.difference(&shown).collect();
    assert!(missing.is_empty(), "add an example and its golden bytes of each of these: {missing:#?}");
}
