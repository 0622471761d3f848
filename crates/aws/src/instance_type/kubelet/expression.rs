//! CEL expressions over an instance type. They are a subset of CEL whose evaluation takes time in proportion to the text: without macros,
//! which loop, and without regular expressions.

use kerf_units::nearest_name::nearest;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::extractors::Arguments;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value, functions};
use std::cmp::Ordering;

/// Longest expression in bytes.
pub const TEXT_MAX: usize = 1024;
/// Deepest nesting of brackets and conditions: the parser recurses, and ends in a panic where it is too deep.
const NESTING_MAX: usize = 16;
/// The operator of a negative number, and the function that stands for it: the library's own overflows at the least number.
const NEGATE: &str = "-_";
const CHECKED_NEGATE: &str = "checked_negate";

/// The operators of an expression, as the parser names them.
const OPERATORS: [&str; 17] = [
    "_?_:_", "_&&_", "_||_", "!_", "_-_", "_+_", "_*_", "_/_", "_%_", "_==_", "_!=_", "_>=_", "_<=_", "_>_", "_<_",
    "_[_]", "@in",
];
/// The functions.
const FUNCTIONS: [&str; 9] = [
    "max",
    "min",
    "int",
    "double",
    "string",
    "size",
    "contains",
    "startsWith",
    "endsWith",
];
/// The variables.
const VARIABLES: [&str; 6] = [
    "vcpus",
    "memory_mib",
    "default_enis",
    "ips_per_eni",
    "max_pods",
    "instance_type",
];

/// What an expression sees of an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    /// Name of the type.
    pub instance_type: String,
    /// CPUs.
    pub vcpus: i64,
    /// Memory as EC2 advertises it, in MiB.
    pub memory_mib: i64,
    /// Network interfaces of the default card.
    pub default_enis: i64,
    /// IPv4 addresses of an interface.
    pub ips_per_eni: i64,
    /// Pods of a node.
    pub max_pods: i64,
}

impl Variables {
    /// An ordinary machine, to find expressions that fail for any.
    fn sample() -> Self {
        Self {
            instance_type: "m5.large".to_owned(),
            vcpus: 2,
            memory_mib: 8192,
            default_enis: 3,
            ips_per_eni: 10,
            max_pods: 29,
        }
    }
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Too long.
    #[error("is longer than {TEXT_MAX} bytes")]
    TooLong,
    /// Too many brackets and conditions in one another.
    #[error("has more than {NESTING_MAX} brackets and conditions in one another")]
    TooDeep,
    /// No CEL.
    #[error("is no CEL: {0}")]
    Syntax(String),
    /// A variable or function that does not exist.
    #[error("has the unknown name {name}; {}", .meant.map_or_else(|| format!("variables are {}, functions {}", VARIABLES.join(", "), FUNCTIONS.join(", ")), |meant| format!("did you mean {meant}?")))]
    UnknownName {
        /// The name as written.
        name: String,
        /// The one that was probably meant.
        meant: Option<&'static str>,
    },
    /// A part of CEL that is not supported.
    #[error("has {0}, which expressions of kubelet settings cannot have")]
    Unsupported(&'static str),
    /// Operands that do not go together.
    #[error("does not go with its types: {0}; write int(…) or double(…) where a number has the other kind")]
    Types(String),
    /// The result is no number.
    #[error("must give an int or a double, not a {0}")]
    NotANumber(&'static str),
}

/// Why an expression gives no number for an instance type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// CEL's error.
    #[error("{0}")]
    Cel(String),
    /// The result is no number.
    #[error("the result is a {0}, no number")]
    NotANumber(&'static str),
    /// The result is infinite, undefined or beyond all bounds.
    #[error("the result {0} is no finite number of 64 bits")]
    OutOfBounds(String),
}

/// An expression that was parsed.
#[derive(Clone, Debug)]
pub struct Expression {
    tree: IdedExpr,
}

impl Expression {
    /// Parses a text.
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        if text.len() > TEXT_MAX {
            return Err(CompileError::TooLong);
        }
        if nesting(text) > NESTING_MAX {
            return Err(CompileError::TooDeep);
        }
        let mut tree = Parser::default()
            .parse(text)
            .map_err(|error| CompileError::Syntax(one_line(&error.to_string())))?;
        prepare(&mut tree)?;
        let expression = Self { tree };
        // The library checks types only while it evaluates.
        match expression.value(&Variables::sample()) {
            Ok(value) => match number(&value) {
                Err(EvaluationError::NotANumber(kind)) => Err(CompileError::NotANumber(kind)),
                Err(EvaluationError::Cel(_) | EvaluationError::OutOfBounds(_)) | Ok(_) => Ok(expression),
            },
            Err(
                ExecutionError::DivisionByZero(_)
                | ExecutionError::RemainderByZero(_)
                | ExecutionError::Overflow(..)
                | ExecutionError::IndexOutOfBounds(_)
                | ExecutionError::NoSuchKey(_)
                | ExecutionError::FunctionError { .. },
            ) => Ok(expression),
            Err(error) => Err(CompileError::Types(one_line(&error.to_string()))),
        }
    }

    /// The number for an instance type; the fraction of a double is cut off.
    pub fn evaluate(&self, variables: &Variables) -> Result<i64, EvaluationError> {
        let value = self.value(variables);
        let value = value.map_err(|error| EvaluationError::Cel(one_line(&error.to_string())))?;
        number(&value)
    }

    fn value(&self, variables: &Variables) -> Result<Value, ExecutionError> {
        let mut context = Context::empty();
        context.add_function("max", |arguments: Arguments| of_two(&arguments, Ordering::Greater));
        context.add_function("min", |arguments: Arguments| of_two(&arguments, Ordering::Less));
        context.add_function(CHECKED_NEGATE, |Arguments(of): Arguments| match of.as_slice() {
            [Value::Int(number)] => {
                let negated = number.checked_neg().map(Value::Int);
                negated.ok_or_else(|| ExecutionError::Overflow("sub", Value::Int(0), Value::Int(*number)))
            }
            [Value::Float(number)] => Ok(Value::Float(-number)),
            _ => Err(ExecutionError::NoSuchOverload),
        });
        context.add_function("int", functions::int);
        context.add_function("double", functions::double);
        context.add_function("string", functions::string);
        context.add_function("size", functions::size);
        context.add_function("contains", functions::contains);
        context.add_function("startsWith", functions::starts_with);
        context.add_function("endsWith", functions::ends_with);
        let numbers = [
            ("vcpus", variables.vcpus),
            ("memory_mib", variables.memory_mib),
            ("default_enis", variables.default_enis),
            ("ips_per_eni", variables.ips_per_eni),
            ("max_pods", variables.max_pods),
        ];
        for (name, value) in numbers {
            context.add_variable_from_value(name, value);
        }
        context.add_variable_from_value("instance_type", variables.instance_type.clone());
        context.resolve(&self.tree)
    }
}

/// The deepest nesting of brackets and conditions: each `?` contains the rest of the text. Those in texts count, too.
fn nesting(text: &str) -> usize {
    let (mut open, mut conditions) = (0_usize, 0);
    let depths = text.bytes().map(|byte| {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'?' => conditions += 1,
            _ => {}
        }
        open + conditions
    });
    depths.max().unwrap_or(0)
}

/// A message of the library on one line.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Refuses everything that an expression cannot have.
fn prepare(tree: &mut IdedExpr) -> Result<(), CompileError> {
    let unsupported = |what| Err(CompileError::Unsupported(what));
    match &mut tree.expr {
        Expr::Unspecified => unsupported("an empty part"),
        Expr::Comprehension(_) => unsupported("a macro"),
        Expr::Select(_) => unsupported("a field"),
        Expr::Struct(_) => unsupported("a message"),
        Expr::Ident(name) if VARIABLES.contains(&name.as_str()) => Ok(()),
        Expr::Ident(name) => Err(unknown(name, &VARIABLES)),
        Expr::Literal(literal) => match literal {
            LiteralValue::Boolean(_) | LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::String(_) => {
                Ok(())
            }
            LiteralValue::Bytes(_) => unsupported("bytes"),
            LiteralValue::Null => unsupported("null"),
            LiteralValue::UInt(_) => unsupported("an unsigned number"),
        },
        Expr::List(list) => list.elements.iter_mut().try_for_each(prepare),
        Expr::Map(map) => map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
            EntryExpr::MapEntry(entry) => {
                prepare(&mut entry.key)?;
                prepare(&mut entry.value)
            }
            EntryExpr::StructField(_) => unsupported("a message"),
        }),
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            if name == NEGATE {
                CHECKED_NEGATE.clone_into(&mut call.func_name);
            } else if !OPERATORS.contains(&name) && !FUNCTIONS.contains(&name) {
                return Err(unknown(name, &FUNCTIONS));
            }
            if let Some(target) = &mut call.target {
                prepare(target)?;
            }
            call.args.iter_mut().try_for_each(prepare)
        }
    }
}

fn unknown(name: &str, known: &'static [&'static str]) -> CompileError {
    CompileError::UnknownName {
        name: name.to_owned(),
        meant: nearest(name, known.iter().copied()),
    }
}

/// The greater or lesser of two numbers; of an int and a double as a double.
fn of_two(Arguments(of): &Arguments, wanted: Ordering) -> Result<Value, ExecutionError> {
    let choose = |a: f64, b: f64| if a.partial_cmp(&b) == Some(wanted) { a } else { b };
    match of.as_slice() {
        [Value::Int(a), Value::Int(b)] => Ok(Value::Int(if a.cmp(b) == wanted { *a } else { *b })),
        [Value::Float(a), Value::Float(b)] => Ok(Value::Float(choose(*a, *b))),
        [Value::Int(a), Value::Float(b)] => Ok(Value::Float(choose(*a as f64, *b))),
        [Value::Float(a), Value::Int(b)] => Ok(Value::Float(choose(*a, *b as f64))),
        [_, _] => Err(ExecutionError::NoSuchOverload),
        others => Err(ExecutionError::InvalidArgumentCount {
            expected: 2,
            actual: others.len(),
        }),
    }
}

/// The result as a whole number.
fn number(value: &Value) -> Result<i64, EvaluationError> {
    /// Doubles from here on are beyond 64 bits.
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Value::Int(number) => Ok(*number),
        Value::Float(number) if number.abs() < BOUND => Ok(*number as i64),
        Value::Float(number) => Err(EvaluationError::OutOfBounds(number.to_string())),
        Value::String(_) => Err(EvaluationError::NotANumber("string")),
        Value::Bool(_) => Err(EvaluationError::NotANumber("bool")),
        Value::List(_) => Err(EvaluationError::NotANumber("list")),
        Value::Map(_) => Err(EvaluationError::NotANumber("map")),
        Value::UInt(_) => Err(EvaluationError::NotANumber("uint")),
        Value::Null
        | Value::Bytes(_)
        | Value::Function(..)
        | Value::Opaque(_)
        | Value::Duration(_)
        | Value::Timestamp(_) => Err(EvaluationError::NotANumber("value of another kind")),
    }
}
