//! From what a person types to the job that is meant.

use super::ApiState;
use super::jobs::check_ready;
use super::problem::Problem;
use node_core::ids::{JobId, NodeId};
use std::fmt::Write;

/// Fewer digits name too many jobs. Our choice.
const MIN_DIGITS: usize = 4;
/// Advice for whoever names a job that is not there. People read it in the CLI and on the dashboard.
pub(super) const ALL_JOBS: &str = "`manyhands jobs` and the dashboard list all";
/// Candidates named in a message.
const NAMED: usize = 5;

/// The job with this id, whole or shortened. A whole id need not exist: who reads it finds out.
pub(super) async fn find_job(state: &ApiState, text: &str) -> Result<JobId, Problem> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let prefix = Prefix::parse(text)?;
    let found = state.node.read(move |node, _| {
        node.jobs().iter().map(|job| job.id).filter(|id| prefix.fits(*id)).collect::<Vec<_>>()
    });
    let found = found.await?;
    match found[..] {
        [id] => Ok(id),
        [] => {
            check_ready(state).await?;
            Err(Problem::not_found(format!("there is no job {text}; {ALL_JOBS}")))
        }
        _ => {
            let mut detail = format!("{text} could be any of {} jobs; give more digits:", found.len());
            for id in found.iter().take(NAMED) {
                let _ = write!(detail, " {id}");
            }
            Err(Problem::bad_request(detail))
        }
    }
}

/// The connected node with this id, whole or shortened, or with this name.
pub(super) async fn find_node(state: &ApiState, text: &str) -> Result<NodeId, Problem> {
    let digits = text.strip_prefix("n-").unwrap_or(text).to_ascii_lowercase();
    let is_id = digits.len() >= MIN_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let wanted = text.to_owned();
    let found = state.node.read(move |node, now| {
        let fits = |id: NodeId, name: &str| name == wanted || is_id && id.to_string().starts_with(&digits);
        let nodes = node.nodes(now).into_iter().filter(|node| fits(node.id, &node.name));
        nodes.map(|node| node.id).collect::<Vec<_>>()
    });
    let shown: String = text.chars().take(80).collect();
    match found.await?[..] {
        [id] => Ok(id),
        [] => Err(Problem::not_found(format!(
            "no node {shown:?} is connected; `manyhands nodes` and the dashboard list those that are"
        ))),
        _ => Err(Problem::bad_request(format!("{shown:?} could be any of several nodes; give its id"))),
    }
}

#[derive(Debug)]
struct Prefix(String);

impl Prefix {
    fn parse(text: &str) -> Result<Prefix, Problem> {
        let digits = text.strip_prefix("j-").unwrap_or(text);
        let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_hex || digits.len() < MIN_DIGITS || digits.len() >= 2 * size_of::<JobId>() {
            let shown: String = text.chars().take(80).collect();
            return Err(Problem::bad_request(format!(
                "{shown:?} does not name a job: give its id of 32 hexadecimal digits, \
                 its short form (j-1a2b3c4d), or {MIN_DIGITS} or more of its first digits"
            )));
        }
        Ok(Prefix(digits.to_ascii_lowercase()))
    }

    fn fits(&self, id: JobId) -> bool {
        id.to_string().starts_with(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_by_its_first_digits() {
        let id: JobId = "1a2b3c4d5e6f708192a3b4c5d6e7f809".parse().unwrap();
        for text in ["1a2b", "1A2B3C", "j-1a2b3c4d", "j-1a2b", "1a2b3c4d5e6f708192a3b4c5d6e7f80"] {
            assert!(Prefix::parse(text).unwrap().fits(id), "{text}");
        }
        assert!(!Prefix::parse("1a2c").unwrap().fits(id));
    }

    #[test]
    fn what_names_no_job_is_refused() {
        for text in ["", "1a2", "j-", "hello", "n-1a2b3c4d", "1a2b3c4d5e6f708192a3b4c5d6e7f80900", "१२३४"]
        {
            let problem = Prefix::parse(text).unwrap_err();
            assert_eq!(problem.parts().0, 400, "{text}");
        }
    }
}
