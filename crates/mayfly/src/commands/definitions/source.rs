//! The files that definitions are read from.

use std::path::{Path, PathBuf};

use definitions::{Definitions, Parameters, Problem, merged};

use super::output;

/// What turns a Bicep file into what is read here.
const BICEP: [(&str, &str); 2] = [("bicepparam", "bicep build-params"), ("bicep", "bicep build")];

#[derive(Clone, Debug, clap::Args)]
pub struct Source {
    /// Files that say what there is to be; several count as one
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A file with values for the parameters of an ARM template
    #[arg(long, value_name = "FILE")]
    parameters: Vec<PathBuf>,
    /// A value for a parameter of an ARM template: a text as it is, any other as JSON
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    parameter: Vec<(String, String)>,
}

fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is no parameter; write name=value")),
    }
}

impl Source {
    /// None: what is wrong with the files is told, a line each.
    pub fn read(&self) -> Option<Definitions> {
        match self.definitions() {
            Ok(definitions) => Some(definitions),
            Err(problems) => {
                output::complain(&problems);
                None
            }
        }
    }

    fn definitions(&self) -> Result<Definitions, Vec<Problem>> {
        let mut parameters = Parameters { typed: self.parameter.clone(), ..Parameters::default() };
        let mut problems = Vec::new();
        for path in &self.parameters {
            let read = text(path).and_then(|text| parameters.read(&text, &shown(path)));
            problems.extend(read.err().unwrap_or_default());
        }
        let mut files = Vec::new();
        for path in &self.files {
            match text(path).and_then(|text| definitions::read(&text, &shown(path), &parameters)) {
                Ok(file) => files.push(file),
                Err(more) => problems.extend(more),
            }
        }
        if problems.is_empty() { merged(files) } else { Err(problems) }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn text(path: &Path) -> Result<String, Vec<Problem>> {
    let wrong = |why: String| vec![Problem::new(format!("'{}'", path.display()), why)];
    let extension = path.extension().and_then(|extension| extension.to_str());
    if let Some((_, command)) = BICEP.iter().find(|(bicep, _)| extension == Some(bicep)) {
        let file = path.with_extension("json");
        return Err(wrong(format!(
            "it is Bicep, and JSON is read here; run: {command} --outfile '{}' '{}'",
            file.display(),
            path.display()
        )));
    }
    std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))
}
