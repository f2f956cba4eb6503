//! `task.xml`: a job as paper `market` has it (its figure 7 and section V).
//!
//! ```xml
//! <TaskFile>
//!   <SubTask>
//!     <CpuCycles>1000</CpuCycles>
//!     <CheckPointDataSize>0</CheckPointDataSize>
//!     <Price>234</Price>
//!     <File>job.wasm</File>
//!     <InputParameters><Count>1</Count><Param>3</Param></InputParameters>
//!     <OutputFiles><Count>1</Count><OutputFile>job.out</OutputFile></OutputFiles>
//!   </SubTask>
//! </TaskFile>
//! ```
//! A file is one job and a sub-task one of its units; `docs/task-file.md` has the table of fields.
//!
//! Departures from the paper: `InputFiles` is ours, since its text wants input files named and its
//! figure has no element for them; `MinSpeed` is ours, the `min_speed` of a job in TOML; and all sub-tasks of
//! a file run one program, as a job does.

use super::args::SceneArgs;
use super::job_settings::JobSettings;
use super::plan::{JobPlan, UnitPlan, UnitsPlan};
use super::quantity::{Credits, Every};
use super::strict_toml::{Mistake, nearest};
use super::task_path::task_path;
use roxmltree::{Document, Error, Node, ParsingOptions, TextPos};
use std::path::{Path, PathBuf};

const SUB_TASK: &[&str] = &[
    "CpuCycles",
    "CheckPointDataSize",
    "Price",
    "MinSpeed",
    "File",
    "InputParameters",
    "InputFiles",
    "OutputFiles",
];

/// Most elements and texts in a file. Our choice: far beyond the units that a job may have.
const NODES: u32 = 50_000_000;

/// Whether a text is meant as XML: no TOML begins like that.
pub(crate) fn is_xml(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}

/// Reads a task file's text; its paths are relative to `folder`.
pub(crate) fn plan(shown: &str, text: &str, folder: &Path) -> Result<JobPlan, Mistake> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|e| syntax(shown, text, &e))?;
    let file = TaskFile { shown, document: &document };
    let root = document.root_element();
    file.named(root, &["TaskFile"], "the outermost element of a task file is TaskFile")?;
    if let Some(node) = document.root().children().find(Node::is_pi) {
        return Err(file.at(node, PROCESSING));
    }
    let tasks = file.elements(root, &["SubTask"])?;
    let mut tasks = tasks.into_iter().map(|task| file.sub_task(task));
    let Some(first) = tasks.next().transpose()? else {
        return Err(file.at(root, "there is no SubTask, so nothing to do; name at least one"));
    };
    let program = folder.join(&first.program);
    let usual = JobPlan::new(&program, Vec::new(), &SceneArgs::default(), &JobSettings::default());
    let mut plan = usual.map_err(|e| file.at(first.program_at, &e.message))?;
    plan.by_options = false;
    // Otherwise as often as usual: the size is measured, and the pace follows it.
    plan.settings.checkpoint = (!first.checkpoints).then_some(Every(None));
    let (place, checkpoints, price) = (first.program_at, first.checkpoints, first.price);
    let min_speed = first.min_speed;
    let mut cycles = first.cycles;
    let mut units = vec![first.unit(folder)];
    for task in tasks {
        let task = task?;
        if folder.join(&task.program) != program {
            let what = format!(
                "{} is another program than that of line {}: a job runs one; write a task file for each",
                task.program.display(),
                file.position(place).row,
            );
            return Err(file.at(task.program_at, &what));
        }
        if task.checkpoints != checkpoints {
            let what = "some sub-tasks want checkpoints and some do not: a job has them for all its units \
                        or for none; say 0 in every CheckPointDataSize or in none";
            return Err(file.at(task.checkpoints_at, what));
        }
        if task.price != price {
            let what = format!(
                "the first sub-task pays {price} and this one {}: a job has one maximum for all its units; \
                 say the same in every Price, or write a task file for each",
                task.price,
            );
            return Err(file.at(task.price_at, &what));
        }
        if task.min_speed != min_speed {
            let said = |speed: Option<u64>| speed.map_or("none".into(), |speed| speed.to_string());
            let what = format!(
                "the first sub-task's MinSpeed is {} and this one's {}: a job has one for all its units; say the \
                 same in every sub-task, or write a task file for each",
                said(min_speed),
                said(task.min_speed),
            );
            return Err(file.at(task.min_speed_at, &what));
        }
        cycles = cycles.max(task.cycles);
        units.push(task.unit(folder));
    }
    plan.units = UnitsPlan::List(units);
    if price > 0 {
        plan.settings.max_price = Some(Credits(price));
        plan.settings.fuel_limit = Some(fuel_of(cycles));
        plan.settings.min_speed = min_speed;
    }
    Ok(plan)
}

/// Fuel that a unit may use on a bought place: its seller has to know. Our choice: a cycle does about one
/// instruction, which is about one unit of fuel; twice that, since the author estimates and a unit that ends
/// at its limit is lost; and a second of a usual slot in any case, which a program takes to begin.
fn fuel_of(cycles: u64) -> u64 {
    cycles.saturating_mul(2).max(1_000_000_000)
}

const PROCESSING: &str = "a processing instruction has no meaning in a task file; leave it out";

/// Content of one `SubTask`.
struct SubTask<'x> {
    program: PathBuf,
    program_at: Node<'x, 'x>,
    checkpoints: bool,
    checkpoints_at: Node<'x, 'x>,
    /// As its author estimates them.
    cycles: u64,
    /// Micro-credits; 0: nothing is paid.
    price: u64,
    price_at: Node<'x, 'x>,
    /// Fuel a second.
    min_speed: Option<u64>,
    min_speed_at: Node<'x, 'x>,
    parameters: Vec<String>,
    /// By the path that the program sees.
    inputs: Vec<(String, PathBuf)>,
}

impl SubTask<'_> {
    fn unit(self, folder: &Path) -> UnitPlan {
        let files = self.inputs.into_iter().map(|(name, path)| (name, folder.join(path))).collect();
        UnitPlan { arguments: Some(self.parameters), stdin: None, files }
    }
}

/// A document, with the name of its file for mistakes.
#[derive(Clone, Copy)]
struct TaskFile<'x> {
    shown: &'x str,
    document: &'x Document<'x>,
}

impl<'x> TaskFile<'x> {
    fn sub_task(self, task: Node<'x, 'x>) -> Result<SubTask<'x>, Mistake> {
        let fields = self.elements(task, SUB_TASK)?;
        let find = |name: &str| fields.iter().copied().find(|field| field.tag_name().name() == name);
        for (at, field) in fields.iter().enumerate() {
            let name = field.tag_name().name();
            if let Some(before) = fields[..at].iter().find(|other| other.tag_name().name() == name) {
                let line = self.position(*before).row;
                let what = format!("{name} stands in line {line} already; keep one of them");
                return Err(self.at(*field, &what));
            }
        }
        let needed = |name: &str, example: &str| {
            find(name).ok_or_else(|| {
                self.at(
                    task,
                    &format!("this SubTask has no {name}; add one, as in <{name}>{example}</{name}>"),
                )
            })
        };
        let cycles = self.number(needed("CpuCycles", "1000000000")?, 1)?;
        let price_at = find("Price");
        let price = price_at.map_or(Ok(0), |price| self.number(price, 0))?;
        let price_at = price_at.unwrap_or(task);
        let speed_at = find("MinSpeed");
        let min_speed = speed_at.map(|speed| self.number(speed, 1)).transpose()?;
        if let Some(at) = speed_at.filter(|_| price == 0) {
            let what = "MinSpeed says which places are bought, and this sub-task pays for none; add a Price above 0, \
                        or leave MinSpeed out";
            return Err(self.at(at, what));
        }
        let checkpoints_at = needed("CheckPointDataSize", "0")?;
        let checkpoints = self.number(checkpoints_at, 0)? > 0;
        let program_at = needed("File", "job.wasm")?;
        let program = PathBuf::from(self.word(program_at)?);
        let list = |name, item| find(name).map_or(Ok(Vec::new()), |list| self.list(list, item));
        let parameters = list("InputParameters", "Param")?;
        let mut inputs: Vec<(String, PathBuf)> = Vec::new();
        for (at, path) in self.paths(list("InputFiles", "InputFile")?)? {
            let name = task_path(&path).map_err(|e| self.at(at, &e))?;
            if inputs.iter().any(|(other, _)| *other == name) {
                return Err(self.at(at, &format!("the program would see two files named {name}")));
            }
            inputs.push((name, path));
        }
        // Every file that a program writes comes back, so these are only looked at.
        for (at, path) in self.paths(list("OutputFiles", "OutputFile")?)? {
            task_path(&path).map_err(|e| self.at(at, &e))?;
        }
        let parameters = parameters.into_iter().map(|(_, text)| text).collect();
        Ok(SubTask {
            program,
            program_at,
            checkpoints,
            checkpoints_at,
            cycles,
            price,
            price_at,
            min_speed,
            min_speed_at: speed_at.unwrap_or(task),
            parameters,
            inputs,
        })
    }

    /// A `Count`, and so many of `item`.
    fn list(self, list: Node<'x, 'x>, item: &'static str) -> Result<Vec<(Node<'x, 'x>, String)>, Mistake> {
        let elements = self.elements(list, &["Count", item])?;
        let (counts, items): (Vec<_>, Vec<_>) =
            elements.into_iter().partition(|element| element.tag_name().name() == "Count");
        let name = list.tag_name().name();
        let [count] = counts[..] else {
            let what = format!("{name} needs one Count: here it is <Count>{}</Count>", items.len());
            return Err(self.at(list, &what));
        };
        let said = self.number(count, 0)?;
        if said != items.len() as u64 {
            let what = format!("Count is {said}, but {name} has {} of {item}; correct either", items.len());
            return Err(self.at(count, &what));
        }
        items.into_iter().map(|item| Ok((item, self.text(item)?))).collect()
    }

    fn paths(self, items: Vec<(Node<'x, 'x>, String)>) -> Result<Vec<(Node<'x, 'x>, PathBuf)>, Mistake> {
        items.into_iter().map(|(at, _)| Ok((at, PathBuf::from(self.word(at)?)))).collect()
    }

    /// The elements in `parent`, each of a known name, and nothing else but comments.
    fn elements(self, parent: Node<'x, 'x>, known: &[&'static str]) -> Result<Vec<Node<'x, 'x>>, Mistake> {
        self.plain(parent)?;
        let mut found = Vec::new();
        for node in parent.children().filter(|node| !node.is_comment()) {
            if node.is_element() {
                let place = format!("{} holds {}", parent.tag_name().name(), known.join(", "));
                self.named(node, known, &place)?;
                found.push(node);
            } else if node.is_pi() {
                return Err(self.at(node, PROCESSING));
            } else if let Some(text) = node.text().filter(|text| !text.trim().is_empty()) {
                let text: String = text.trim().chars().take(40).collect();
                let name = parent.tag_name().name();
                return Err(
                    self.at(node, &format!("{text:?} stands between the elements of {name}; remove it"))
                );
            }
        }
        Ok(found)
    }

    fn named(self, node: Node<'x, 'x>, known: &[&'static str], place: &str) -> Result<(), Mistake> {
        let name = node.tag_name();
        if name.namespace().is_some() {
            return Err(self.at(node, "a task file has no namespaces; leave the xmlns out"));
        }
        if known.contains(&name.name()) {
            return Ok(());
        }
        let hint = match closest(name.name(), known) {
            Some(near) => format!("did you mean <{near}>?"),
            None => place.to_owned(),
        };
        Err(self.at(node, &format!("unknown element <{}>: {hint}", name.name())))
    }

    /// The text in an element that holds nothing else.
    fn text(self, node: Node<'x, 'x>) -> Result<String, Mistake> {
        self.plain(node)?;
        if let Some(inner) = node.children().find(Node::is_element) {
            let (inner_name, name) = (inner.tag_name().name(), node.tag_name().name());
            return Err(self.at(inner, &format!("<{inner_name}> stands in {name}, which holds text only")));
        }
        if let Some(inner) = node.children().find(Node::is_pi) {
            return Err(self.at(inner, PROCESSING));
        }
        Ok(node.children().filter_map(|text| text.text().filter(|_| text.is_text())).collect())
    }

    /// [`Self::text`] without surrounding white space; `Err` if nothing is left.
    fn word(self, node: Node<'x, 'x>) -> Result<String, Mistake> {
        let text = self.text(node)?.trim().to_owned();
        match text.is_empty() {
            true => Err(self.at(node, &format!("{} is empty; name a file", node.tag_name().name()))),
            false => Ok(text),
        }
    }

    fn number(self, node: Node<'x, 'x>, least: u64) -> Result<u64, Mistake> {
        let text = self.text(node)?;
        text.trim().parse().ok().filter(|number| *number >= least).ok_or_else(|| {
            let text: String = text.trim().chars().take(40).collect();
            let name = node.tag_name().name();
            self.at(node, &format!("{name} is {text:?}: write a whole number, {least} or more"))
        })
    }

    fn plain(self, node: Node<'x, 'x>) -> Result<(), Mistake> {
        match node.attributes().next() {
            Some(attribute) => {
                let (name, element) = (attribute.name(), node.tag_name().name());
                Err(self.at(node, &format!("{element} has the attribute {name}: task files have none")))
            }
            None => Ok(()),
        }
    }

    fn at(self, node: Node<'x, 'x>, what: &str) -> Mistake {
        let TextPos { row, col } = self.position(node);
        Mistake::at(self.shown, row as usize, col as usize, what)
    }

    fn position(self, node: Node<'x, 'x>) -> TextPos {
        self.document.text_pos_at(node.range().start)
    }
}

fn closest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let small: Vec<String> = known.iter().map(|name| name.to_lowercase()).collect();
    let names: Vec<&str> = small.iter().map(String::as_str).collect();
    let near = nearest(word, &names)?;
    known.iter().copied().find(|name| name.to_lowercase() == near)
}

/// Mistake for text that is no XML, or XML that a task file does without.
fn syntax(shown: &str, text: &str, e: &Error) -> Mistake {
    let offset = |at: usize| {
        let before = &text[..at];
        let line = before.rsplit('\n').next().unwrap_or_default();
        TextPos::new(before.matches('\n').count() as u32 + 1, line.chars().count() as u32 + 1)
    };
    let end = || offset(text.trim_end().len());
    let (place, what) = match e {
        Error::DtdDetected => {
            let what = "a task file has no document type; remove the DOCTYPE and what it declares";
            (offset(text.find("<!DOCTYPE").unwrap_or(0)), what.to_owned())
        }
        Error::UnknownEntityReference(name, place) => {
            let what = format!(
                "&{name}; is unknown here; write the text itself, or one of &lt; &gt; &amp; &quot; &apos;"
            );
            (*place, what)
        }
        Error::UnclosedRootNode | Error::UnexpectedEndOfStream => {
            (end(), "the file ends here, and an element is still open; close it".into())
        }
        Error::NoRootNode => (end(), "the file holds no element; it begins with <TaskFile>".into()),
        Error::NodesLimitReached => (end(), format!("more than {NODES} elements; write several files")),
        e => {
            let said = e.to_string();
            let what = said.trim_end_matches(&format!(" at {}", e.pos())).to_owned();
            (e.pos(), format!("this is no XML: {what}"))
        }
    };
    Mistake::at(shown, place.row as usize, place.col as usize, &what)
}

#[cfg(test)]
#[path = "task_file_tests.rs"]
mod tests;
