//! `dag`: prints the order that a chart declares for its objects, by the keys of HIP-0025.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use controller::report::chain;
use helm::chart::Chart;
use helm::manifest::Manifest;
use helm::sequence::{Sequence, Stage, sequence};
use helm::template::Options;

use crate::terminal::plain_lines;

/// How many objects of a stage a line names.
const MAX_NAMED: usize = 8;

/// The arguments of `dag`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  # What is applied first, and what waits for it
  helm-operator dag ./chart

  # As a picture
  helm-operator dag ./chart -o dot | dot -Tsvg > order.svg

The operator applies a chart in this order if its entry in watches.yaml says `sequencing: ordered`; \
the keys are those of a draft (HIP-0025). \
Exit code 1 if the chart waits for something that it does not have, or in a circle.")]
pub(crate) struct Dag {
    /// The chart: a folder or a .tgz archive
    chart: String,

    /// Values from a YAML file ("-" reads standard input); may be repeated
    #[arg(short = 'f', long, value_name = "FILE")]
    values: Vec<String>,

    /// Set a value: `a.b[0]=c,d=e`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One line for each group of objects
    Text,
    /// A graph for Graphviz
    Dot,
}

/// Prints the order.
pub(super) fn run(asked: &Dag) -> ExitCode {
    match asked.order() {
        Ok((sequence, manifests)) => {
            super::print(
                match asked.output {
                    Form::Text => plain_lines(&text(&sequence, &manifests)),
                    Form::Dot => dot(&sequence),
                }
                .trim_end(),
            );
            for late in sequence.late(&manifests) {
                eprintln!("Warning: {}", plain_lines(&late.to_string()));
            }
            for problem in &sequence.problems {
                super::print_error(&problem.to_string());
            }
            if sequence.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => super::fail(&chain(&*error)),
    }
}

impl Dag {
    fn order(&self) -> Result<(Sequence, Vec<Manifest>), Box<dyn std::error::Error>> {
        let options = Options {
            name_and_chart: vec!["release-name".to_owned(), self.chart.clone()],
            namespace: "default".to_owned(),
            values: self.values.clone(),
            set: self.set.clone(),
            ..Options::default()
        };
        let (rendered, _) = options.render(None)?;
        let rendered = rendered?;
        let chart = Chart::load(std::path::Path::new(&self.chart))?;
        Ok((sequence(&chart, &rendered.manifests)?, rendered.manifests))
    }
}

fn text(sequence: &Sequence, manifests: &[Manifest]) -> String {
    let line = |stage: &Stage| format!("  {}: {}\n", stage.name(), objects(stage, manifests));
    let round = |(number, stages): (usize, Vec<&Stage>)| {
        format!("{}.\n{}", number + 1, stages.into_iter().map(line).collect::<String>())
    };
    sequence.rounds().into_iter().enumerate().map(round).collect()
}

fn objects(stage: &Stage, manifests: &[Manifest]) -> String {
    let name = |at: &usize| manifests.get(*at).map(|one| format!("{} {}", one.head.kind, one.head.name));
    let mut names: Vec<String> = stage.objects.iter().take(MAX_NAMED).filter_map(name).collect();
    if stage.objects.len() > MAX_NAMED {
        names.push(format!("and {} more", stage.objects.len() - MAX_NAMED));
    }
    names.join(", ")
}

fn dot(sequence: &Sequence) -> String {
    let quoted = |stage: &Stage| format!("\"{}\"", stage.name().replace('\\', "\\\\").replace('"', "\\\""));
    let node = |stage: &Stage| {
        let before = stage.after.iter().filter_map(|at| sequence.stages.get(*at));
        let edges: String = before.map(|one| format!("  {} -> {};\n", quoted(one), quoted(stage))).collect();
        format!("  {};\n{edges}", quoted(stage))
    };
    let nodes: String = sequence.stages.iter().map(node).collect();
    format!("digraph order {{\n  rankdir=LR;\n  node [shape=box];\n{nodes}}}\n")
}

#[cfg(test)]
mod tests {
    use helm::sequence::Problem;

    use super::*;

    fn chart(folder: &std::path::Path, on: &str) -> Dag {
        std::fs::create_dir_all(folder.join("templates")).unwrap();
        std::fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: shop\nversion: 1.0.0\n").unwrap();
        let object = |name: &str, annotations: &str| {
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n"
            )
        };
        let text = [
            object("db", "helm.sh/resource-group: database"),
            object("web", &format!("helm.sh/resource-group: web, helm.sh/depends-on/resource-groups: '[\"{on}\"]'")),
            object("other", ""),
        ];
        std::fs::write(folder.join("templates/all.yaml"), text.concat()).unwrap();
        Dag { chart: folder.display().to_string(), values: Vec::new(), set: Vec::new(), output: Form::Text }
    }

    #[test]
    fn the_order_is_printed_as_text_and_as_a_graph() {
        let folder = tempfile::tempdir().unwrap();
        let (order, manifests) = chart(folder.path(), "database").order().unwrap();
        let expected =
            "1.\n  shop database: ConfigMap db\n2.\n  shop web: ConfigMap web\n3.\n  shop: ConfigMap other\n";
        assert_eq!(text(&order, &manifests), expected);
        let graph = dot(&order);
        assert!(
            graph.contains("  \"shop database\" -> \"shop web\";\n  \"shop\";\n  \"shop web\" -> \"shop\";\n"),
            "{graph}"
        );
    }

    #[test]
    fn a_group_that_does_not_exist_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let (order, _) = chart(folder.path(), "databse").order().unwrap();
        assert!(matches!(&order.problems[..], [Problem::UnknownGroup { missing, .. }] if missing == "databse"));
    }
}
