use super::*;
use crate::cli::client::Content;

fn read(text: &str) -> Result<JobPlan, Mistake> {
    plan("task.xml", text, Path::new("/jobs"))
}

#[test]
fn min_speed_is_that_of_toml_and_says_which_places_are_bought() {
    let plan =
        read(&changed("<Price>234</Price>", "<Price>234</Price><MinSpeed>500000000</MinSpeed>")).unwrap();
    assert_eq!(plan.settings.min_speed, Some(500_000_000));
    assert_eq!(read(FIGURE).unwrap().settings.min_speed, None);
    let e = mistake(&changed("<Price>234</Price>", "<MinSpeed>5</MinSpeed>"));
    assert!(
        e.starts_with("task.xml:6:5: MinSpeed says which places are bought, and this sub-task pays"),
        "{e}"
    );
    let second = "<SubTask><CpuCycles>1</CpuCycles><CheckPointDataSize>0</CheckPointDataSize>\
                  <File>job.wasm</File><Price>234</Price><MinSpeed>7</MinSpeed></SubTask></TaskFile>";
    let e = mistake(&FIGURE.replace("</TaskFile>", second));
    assert!(e.contains("MinSpeed is none and this one's 7"), "{e}");
}

fn mistake(text: &str) -> String {
    match read(text) {
        Ok(plan) => panic!("{plan:?}"),
        Err(e) => e.to_string(),
    }
}

/// The paper's figure 7, but for its program: ours are WebAssembly.
const FIGURE: &str = r#"<?xml version="1.0" ?>
<TaskFile>
  <SubTask>
    <CpuCycles>1000</CpuCycles>
    <CheckPointDataSize>0</CheckPointDataSize>
    <Price>234</Price>
    <File>job.wasm</File>
    <InputParameters>
      <Count>2</Count>
      <Param>3</Param>
      <Param>4</Param>
    </InputParameters>
    <OutputFiles>
      <Count>1</Count>
      <OutputFile>joboutput.out</OutputFile>
    </OutputFiles>
  </SubTask>
</TaskFile>
"#;

/// The figure with one of its lines changed.
fn changed(from: &str, to: &str) -> String {
    assert!(FIGURE.contains(from), "{from}");
    FIGURE.replacen(from, to, 1)
}

/// As many sub-tasks as there are files and sizes of checkpoints.
fn tasks(of: &[(&str, u64)]) -> String {
    let task = |(file, size): &(&str, u64)| {
        format!(
            "<SubTask>\n<CpuCycles>1</CpuCycles><Price>0</Price>\n<File>{file}</File>\
             <CheckPointDataSize>{size}</CheckPointDataSize></SubTask>\n"
        )
    };
    format!("<TaskFile>\n{}</TaskFile>", of.iter().map(task).collect::<String>())
}

#[test]
fn the_figure_of_the_paper_is_a_job_of_one_unit() {
    assert!(is_xml(FIGURE) && is_xml("\u{feff}\n <TaskFile/>") && !is_xml("program = 'a.wasm'"));
    let plan = read(FIGURE).unwrap();
    assert_eq!(plan.name, "job");
    assert!(matches!(&plan.program, Content::Path(p) if p == Path::new("/jobs/job.wasm")));
    let UnitsPlan::List(units) = &plan.units else { panic!("{:?}", plan.units) };
    let arguments = Some(vec!["3".to_owned(), "4".into()]);
    assert_eq!(*units, [UnitPlan { arguments, ..UnitPlan::default() }]);
    assert_eq!(plan.settings.checkpoint, Some(Every(None)), "size 0 takes none");
    assert_eq!(plan.settings.max_price, Some(Credits(234)), "its place is bought, for 234 µcr at most");
    assert_eq!(plan.settings.fuel_limit, Some(1_000_000_000), "a thousand cycles would not do to begin");
}

#[test]
fn a_job_without_a_price_buys_nothing_and_its_cycles_are_no_limit() {
    for text in [changed("<Price>234</Price>", "<Price>0</Price>"), changed("<Price>234</Price>", "")] {
        let limits = read(&text).unwrap().settings;
        assert_eq!((limits.max_price, limits.fuel_limit), (None, None));
    }
}

#[test]
fn the_largest_estimate_bounds_every_unit_that_is_bought() {
    let task = |cycles: u64| {
        format!(
            "<SubTask><CpuCycles>{cycles}</CpuCycles><CheckPointDataSize>0</CheckPointDataSize>\
             <Price>5</Price><File>a.wasm</File></SubTask>"
        )
    };
    let of = |cycles: [u64; 2]| {
        let text = format!("<TaskFile>{}{}</TaskFile>", task(cycles[0]), task(cycles[1]));
        read(&text).unwrap().settings.fuel_limit
    };
    assert_eq!(of([3_000_000_000, 7_000_000_000]), Some(14_000_000_000));
    assert_eq!(of([7_000_000_000, 1]), Some(14_000_000_000));
    assert_eq!(of([u64::MAX, 1]), Some(u64::MAX));
}

#[test]
fn all_sub_tasks_pay_the_same() {
    let second = "<SubTask>\n<CpuCycles>1</CpuCycles><CheckPointDataSize>0</CheckPointDataSize>\
                  <File>job.wasm</File><Price>235</Price></SubTask></TaskFile>";
    let e = mistake(&FIGURE.replace("</TaskFile>", second));
    assert!(e.starts_with("task.xml:19:") && e.contains("pays 234 and this one 235"), "{e}");
    let e = mistake(&FIGURE.replace("</TaskFile>", &second.replace("<Price>235</Price>", "")));
    assert!(e.contains("pays 234 and this one 0"), "{e}");
}

#[test]
fn sub_tasks_are_units_with_parameters_and_files_of_their_own() {
    let inputs = "<InputFiles><!-- ours --><Count>2</Count><InputFile>in/a.txt</InputFile>\
                  <InputFile> ./b&amp;c.txt </InputFile></InputFiles>";
    let second = "<SubTask><File>job.wasm</File><Price>234</Price><CpuCycles>18446744073709551615</CpuCycles>\
                  <CheckPointDataSize>0</CheckPointDataSize><InputParameters><Count>1</Count>\
                  <Param> <![CDATA[<kept>]]> </Param></InputParameters></SubTask></TaskFile>";
    let text = changed("<OutputFiles>", &format!("{inputs}<OutputFiles>")).replace("</TaskFile>", second);
    let plan = read(&text).unwrap();
    let UnitsPlan::List(units) = plan.units else { panic!("{:?}", plan.units) };
    let files: Vec<(&str, &Path)> = units[0].files.iter().map(|(n, p)| (n.as_str(), p.as_path())).collect();
    assert_eq!(files, [("in/a.txt", Path::new("/jobs/in/a.txt")), ("b&c.txt", Path::new("/jobs/./b&c.txt"))]);
    assert_eq!(units[1].arguments, Some(vec![" <kept> ".to_owned()]), "a parameter is as it is written");
    assert!(units[1].files.is_empty());
}

#[test]
fn checkpoints_are_for_the_whole_job() {
    assert_eq!(read(&tasks(&[("a.wasm", 4096), ("a.wasm", 1)])).unwrap().settings.checkpoint, None);
    let e = mistake(&tasks(&[("a.wasm", 4096), ("a.wasm", 0)]));
    assert!(e.starts_with("task.xml:7:20: some sub-tasks want checkpoints"), "{e}");
    let e = mistake(&tasks(&[("a.wasm", 0), ("b.wasm", 0)]));
    assert!(e.starts_with("task.xml:7:1: b.wasm is another program than that of line 4"), "{e}");
}

#[test]
fn what_is_unknown_is_named_with_its_place_and_the_likely_one() {
    let e = mistake(&changed("<Price>234</Price>", "<Pirce>234</Pirce>"));
    assert_eq!(e, "task.xml:6:5: unknown element <Pirce>: did you mean <Price>?");
    let e = mistake(&changed("<Param>3</Param>", "<Zebra>3</Zebra>"));
    assert_eq!(e, "task.xml:10:7: unknown element <Zebra>: InputParameters holds Count, Param");
    let e = mistake("<Job/>");
    assert!(e.starts_with("task.xml:1:1: unknown element <Job>: the outermost element"), "{e}");
    let e = mistake(&changed("<SubTask>", "<SubTask id='7'>"));
    assert!(e.starts_with("task.xml:3:3: SubTask has the attribute id"), "{e}");
    let e = mistake(&changed("<SubTask>", "<SubTask xmlns='urn:x'>"));
    assert!(e.starts_with("task.xml:3:3: a task file has no namespaces"), "{e}");
    let e = mistake(&changed("<SubTask>", "<?run fast?><SubTask>"));
    assert!(e.starts_with("task.xml:3:3: a processing instruction"), "{e}");
    let e = mistake(&changed("<Count>2</Count>", "two<Count>2</Count>"));
    assert!(e.contains("\"two\" stands between the elements of InputParameters"), "{e}");
    let e = mistake(&changed("234", "<b>234</b>"));
    assert!(e.starts_with("task.xml:6:12: <b> stands in Price, which holds text only"), "{e}");
}

#[test]
fn what_is_missing_or_said_twice_is_named() {
    for line in ["<CpuCycles>1000</CpuCycles>", "<File>job.wasm</File>"] {
        let name = &line[1..line.find('>').unwrap()];
        let e = mistake(&changed(line, ""));
        assert!(e.starts_with(&format!("task.xml:3:3: this SubTask has no {name}; add one")), "{e}");
    }
    let e = mistake(&changed("<Price>234</Price>", "<Price>1</Price>\n<Price>2</Price>"));
    assert_eq!(e, "task.xml:7:1: Price stands in line 6 already; keep one of them");
    assert!(mistake("<TaskFile>\n</TaskFile>").contains("no SubTask"));
    let e = mistake(&changed("<Count>2</Count>", ""));
    assert!(e.starts_with("task.xml:8:5: InputParameters needs one Count: here it is <Count>2"), "{e}");
    assert!(mistake(&changed("job.wasm", " ")).contains("File is empty"));
}

#[test]
fn numbers_that_cannot_be_are_refused_where_they_stand() {
    let e = mistake(&changed("<Count>2</Count>", "<Count>3</Count>"));
    assert_eq!(e, "task.xml:9:7: Count is 3, but InputParameters has 2 of Param; correct either");
    for bad in ["-1", "1.5", "much", "", "18446744073709551616"] {
        let e = mistake(&changed("234", bad));
        assert!(e.starts_with(&format!("task.xml:6:5: Price is {bad:?}: write a whole number, 0")), "{e}");
    }
    assert!(mistake(&changed("1000", "0")).contains("CpuCycles is \"0\": write a whole number, 1 or more"));
}

#[test]
fn file_names_are_those_of_files_below() {
    let e = mistake(&changed("joboutput.out", ".."));
    assert!(e.starts_with("task.xml:15:7: \"..\" names no file"), "{e}");
    let twice =
        "<InputFiles><Count>2</Count><InputFile>a</InputFile><InputFile>x/../a</InputFile></InputFiles>";
    let e = mistake(&changed("<OutputFiles>", &format!("{twice}<OutputFiles>")));
    assert!(e.contains("two files named a"), "{e}");
}

#[test]
fn broken_xml_and_documents_with_types_are_refused_with_their_place() {
    let e = mistake(&changed("</Price>", "</Prize>"));
    assert!(e.starts_with("task.xml:6:") && e.contains("no XML") && !e.contains(" at 6"), "{e}");
    let e = mistake(&changed("234", "&price;"));
    assert!(e.starts_with("task.xml:6:12: &price; is unknown here"), "{e}");
    let laughs = "<TaskFile>\n";
    let e = mistake(&changed("<TaskFile>\n", &format!("<!DOCTYPE x [<!ENTITY a 'b'>]>\n{laughs}")));
    assert!(e.starts_with("task.xml:2:1: a task file has no document type"), "{e}");
    let e = mistake("<TaskFile>\n  <SubTask>\n");
    assert!(e.starts_with("task.xml:2:12: the file ends here"), "{e}");
    // Deep, not long: no recursion may reach the end of the stack.
    assert!(mistake(&"<TaskFile>".repeat(300_000)).contains("the file ends here"));
}
