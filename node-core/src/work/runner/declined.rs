//! Reasons for which a runner takes no unit of a batch.

use crate::trust::policy::Rejection;
use crate::work::message::Cause;

/// Why units are not taken. The owner gets the words, and the submitter may read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Declined {
    #[error("it gives no slots now")]
    NoSlots,
    #[error("it is full")]
    Full,
    #[error("pages do not run threads of virtual computers yet")]
    NoThreads,
    #[error("it runs another job of this id")]
    OtherJob,
    #[error("another owner said that this unit would come")]
    OtherOwner,
    #[error("it gets ready for other units; try again in a moment")]
    Busy,
    #[error("it gives a unit less memory than this one may use")]
    Memory,
    #[error("it holds {0} bytes of a unit's output, and this one may write more")]
    Output(u64),
    #[error("with it, units would need {bytes} bytes of content here, and it holds {most} at most")]
    Content { bytes: u64, most: u64 },
    #[error("with it, descriptions of units would take {bytes} bytes of memory, and {most} are their bound")]
    Texts { bytes: u64, most: u64 },
    #[error("it is to be paid, and brings no receipt of the bank's")]
    NoReceipt,
    #[error("the receipt of the bank's is for another sale, or for less than this unit may use")]
    OtherReceipt,
    #[error("a unit has come for that sale before")]
    UsedReceipt,
    #[error("its place was sold at another price than it says")]
    Price,
    /// The donor's policy.
    #[error(transparent)]
    Policy(#[from] Rejection),
}

impl Declined {
    /// Whether it is due to the job, to this node, or to who asks.
    pub(super) fn cause(self) -> Cause {
        match self {
            Declined::NoSlots | Declined::Full | Declined::Busy => Cause::Node,
            // An owner that says that it pays, and does not, would say so of its next job too.
            Declined::NoReceipt | Declined::OtherReceipt | Declined::UsedReceipt | Declined::Price => {
                Cause::Node
            }
            Declined::Policy(Rejection::Peer | Rejection::Submitter) => Cause::Node,
            Declined::Policy(Rejection::Time { .. } | Rejection::Memory { .. } | Rejection::Price { .. }) => {
                Cause::Job
            }
            Declined::NoThreads
            | Declined::OtherJob
            | Declined::OtherOwner
            | Declined::Memory
            | Declined::Output(_) => Cause::Job,
            Declined::Content { .. } | Declined::Texts { .. } => Cause::Job,
        }
    }
}
