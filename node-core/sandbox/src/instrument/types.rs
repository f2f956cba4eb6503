//! Types: the encoder's for the parser's, and block types that the program does not have.

use super::callgraph::counting_type;
use std::collections::BTreeMap;
use wasm_encoder::BlockType;
use wasmparser::{FuncType, ValType};

/// The module's function types, and those added for blocks.
pub(super) struct BlockTypes {
    index: BTreeMap<FuncType, u32>,
    first_new: u32,
    pub(super) added: Vec<FuncType>,
}

impl BlockTypes {
    pub(super) fn new(types: &[FuncType]) -> Self {
        let mut index = BTreeMap::new();
        for (i, ty) in types.iter().enumerate() {
            index.entry(ty.clone()).or_insert(i as u32);
        }
        BlockTypes { index, first_new: types.len() as u32, added: Vec::new() }
    }

    /// The index of a function type.
    pub(super) fn function(&mut self, params: &[ValType], results: &[ValType]) -> u32 {
        let ty = FuncType::new(params.iter().copied(), results.iter().copied());
        if let Some(index) = self.index.get(&ty) {
            return *index;
        }
        let index = self.first_new + self.added.len() as u32;
        self.added.push(ty.clone());
        self.index.insert(ty, index);
        index
    }

    /// The index of a type with the fuel added.
    pub(super) fn counting(&mut self, ty: &FuncType) -> u32 {
        let ty = counting_type(ty);
        self.function(ty.params(), ty.results())
    }

    /// Type of a block without parameters and with these results.
    pub(super) fn returning(&mut self, results: &[ValType]) -> BlockType {
        match results {
            [] => BlockType::Empty,
            [one] => BlockType::Result(encode(*one)),
            _ => BlockType::FunctionType(self.function(&[], results)),
        }
    }

    pub(super) fn original(ty: wasmparser::BlockType) -> BlockType {
        match ty {
            wasmparser::BlockType::Empty => BlockType::Empty,
            wasmparser::BlockType::Type(ty) => BlockType::Result(encode(ty)),
            wasmparser::BlockType::FuncType(index) => BlockType::FunctionType(index),
        }
    }
}

pub(super) fn encode(ty: ValType) -> wasm_encoder::ValType {
    match ty {
        ValType::I32 => wasm_encoder::ValType::I32,
        ValType::I64 => wasm_encoder::ValType::I64,
        ValType::F32 => wasm_encoder::ValType::F32,
        ValType::F64 => wasm_encoder::ValType::F64,
        ValType::V128 => wasm_encoder::ValType::V128,
        ValType::Ref(ty) if ty.is_extern_ref() => wasm_encoder::ValType::EXTERNREF,
        // Typed references are refused before.
        ValType::Ref(_) => wasm_encoder::ValType::FUNCREF,
    }
}
