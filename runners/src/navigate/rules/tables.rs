//! The tables. Kinds and fields are those of each grammar's `node-types.json`.

use super::super::encoding::Kind;
use super::When::{Always, Has, OutsideFunctions};
use super::{Definition, Rules, When};

const fn defines(node: &'static str, name: &'static str, kind: Kind) -> Definition {
    Definition { node, name, kind, when: Always }
}

const fn defines_when(node: &'static str, name: &'static str, kind: Kind, when: When) -> Definition {
    Definition { node, name, kind, when }
}

pub const RUST: Rules = Rules {
    definitions: &[
        defines("function_item", "name", Kind::Function),
        defines("function_signature_item", "name", Kind::Function),
        defines("struct_item", "name", Kind::Type),
        defines("enum_item", "name", Kind::Type),
        defines("union_item", "name", Kind::Type),
        defines("trait_item", "name", Kind::Type),
        defines("type_item", "name", Kind::Type),
        defines("impl_item", "type", Kind::Part),
        defines("enum_variant", "name", Kind::Value),
        defines("const_item", "name", Kind::Value),
        defines("static_item", "name", Kind::Value),
        defines("macro_definition", "name", Kind::Macro),
        defines_when("mod_item", "name", Kind::Module, Has("body")),
    ],
    functions: &[],
    names: &["identifier", "field_identifier"],
    types: &["type_identifier"],
    references: &[
        ("call_expression", "function"),
        ("generic_function", "function"),
        ("field_expression", "field"),
        ("scoped_identifier", "name"),
        ("macro_invocation", "macro"),
        ("tuple_struct_pattern", "type"),
        ("use_list", ""),
        ("use_declaration", "argument"),
        ("token_tree", ""),
        ("attribute", ""),
    ],
};

pub const PYTHON: Rules = Rules {
    definitions: &[
        defines("function_definition", "name", Kind::Function),
        defines("class_definition", "name", Kind::Type),
        defines_when("assignment", "left", Kind::Value, OutsideFunctions),
        defines("type_alias_statement", "left", Kind::Type),
    ],
    functions: &["function_definition", "lambda"],
    names: &["identifier"],
    types: &[],
    references: &[
        ("call", "function"),
        ("attribute", "attribute"),
        ("argument_list", ""),
        ("keyword_argument", "value"),
        ("dotted_name", ""),
        ("decorator", ""),
        ("type", ""),
        ("generic_type", ""),
        ("member_type", ""),
        ("raise_statement", ""),
        ("except_clause", "value"),
    ],
};

pub const JAVASCRIPT: Rules = Rules {
    definitions: &[
        defines("function_declaration", "name", Kind::Function),
        defines("generator_function_declaration", "name", Kind::Function),
        defines("method_definition", "name", Kind::Function),
        defines("class_declaration", "name", Kind::Type),
        defines_when("variable_declarator", "name", Kind::Value, OutsideFunctions),
        defines_when("assignment_expression", "left", Kind::Value, OutsideFunctions),
    ],
    functions: &[
        "function_declaration",
        "function_expression",
        "arrow_function",
        "method_definition",
        "generator_function",
        "generator_function_declaration",
    ],
    names: &["identifier", "property_identifier", "private_property_identifier"],
    types: &[],
    references: &[
        ("call_expression", "function"),
        ("new_expression", "constructor"),
        ("member_expression", "property"),
        ("class_heritage", ""),
        ("import_specifier", "name"),
        ("import_clause", ""),
        ("export_specifier", "name"),
        ("arguments", ""),
        ("decorator", ""),
        ("jsx_opening_element", "name"),
        ("jsx_self_closing_element", "name"),
    ],
};

pub const TYPESCRIPT: Rules = Rules {
    definitions: &[
        defines("function_declaration", "name", Kind::Function),
        defines("generator_function_declaration", "name", Kind::Function),
        defines("function_signature", "name", Kind::Function),
        defines("method_definition", "name", Kind::Function),
        defines("method_signature", "name", Kind::Function),
        defines("abstract_method_signature", "name", Kind::Function),
        defines("class_declaration", "name", Kind::Type),
        defines("abstract_class_declaration", "name", Kind::Type),
        defines("interface_declaration", "name", Kind::Type),
        defines("type_alias_declaration", "name", Kind::Type),
        defines("enum_declaration", "name", Kind::Type),
        defines("internal_module", "name", Kind::Module),
        defines_when("variable_declarator", "name", Kind::Value, OutsideFunctions),
        defines_when("assignment_expression", "left", Kind::Value, OutsideFunctions),
    ],
    functions: JAVASCRIPT.functions,
    names: JAVASCRIPT.names,
    types: &["type_identifier"],
    references: &[
        ("call_expression", "function"),
        ("new_expression", "constructor"),
        ("member_expression", "property"),
        ("extends_clause", "value"),
        ("import_specifier", "name"),
        ("import_clause", ""),
        ("export_specifier", "name"),
        ("arguments", ""),
        ("decorator", ""),
        ("jsx_opening_element", "name"),
        ("jsx_self_closing_element", "name"),
    ],
};

pub const GO: Rules = Rules {
    definitions: &[
        defines("function_declaration", "name", Kind::Function),
        defines("method_declaration", "name", Kind::Function),
        defines("method_elem", "name", Kind::Function),
        defines("type_spec", "name", Kind::Type),
        defines("type_alias", "name", Kind::Type),
        defines_when("const_spec", "name", Kind::Value, OutsideFunctions),
        defines_when("var_spec", "name", Kind::Value, OutsideFunctions),
    ],
    functions: &["function_declaration", "method_declaration", "func_literal"],
    names: &["identifier", "field_identifier"],
    types: &["type_identifier"],
    references: &[("call_expression", "function"), ("selector_expression", "field"), ("argument_list", "")],
};

pub const JAVA: Rules = Rules {
    definitions: &[
        defines("class_declaration", "name", Kind::Type),
        defines("interface_declaration", "name", Kind::Type),
        defines("enum_declaration", "name", Kind::Type),
        defines("record_declaration", "name", Kind::Type),
        defines("annotation_type_declaration", "name", Kind::Type),
        defines("method_declaration", "name", Kind::Function),
        defines("constructor_declaration", "name", Kind::Function),
        defines("enum_constant", "name", Kind::Value),
        defines_when("variable_declarator", "name", Kind::Value, OutsideFunctions),
    ],
    functions: &["method_declaration", "constructor_declaration", "lambda_expression", "block"],
    names: &["identifier"],
    types: &["type_identifier"],
    references: &[
        ("method_invocation", "name"),
        ("method_invocation", "object"),
        ("field_access", "field"),
        ("field_access", "object"),
        ("scoped_identifier", "name"),
        ("annotation", "name"),
        ("marker_annotation", "name"),
        ("method_reference", ""),
    ],
};

pub const C_SHARP: Rules = Rules {
    definitions: &[
        defines("class_declaration", "name", Kind::Type),
        defines("interface_declaration", "name", Kind::Type),
        defines("struct_declaration", "name", Kind::Type),
        defines("record_declaration", "name", Kind::Type),
        defines("enum_declaration", "name", Kind::Type),
        defines("delegate_declaration", "name", Kind::Type),
        defines("method_declaration", "name", Kind::Function),
        defines("constructor_declaration", "name", Kind::Function),
        defines("local_function_statement", "name", Kind::Function),
        defines("property_declaration", "name", Kind::Value),
        defines("event_declaration", "name", Kind::Value),
        defines("enum_member_declaration", "name", Kind::Value),
        defines_when("variable_declarator", "name", Kind::Value, OutsideFunctions),
    ],
    functions: &["block", "lambda_expression", "arrow_expression_clause"],
    names: &["identifier"],
    types: &[],
    references: &[
        ("invocation_expression", "function"),
        ("member_access_expression", "name"),
        ("member_access_expression", "expression"),
        ("member_binding_expression", "name"),
        ("object_creation_expression", "type"),
        ("base_list", ""),
        ("primary_constructor_base_type", "type"),
        ("generic_name", ""),
        ("type_argument_list", ""),
        ("qualified_name", "name"),
        ("attribute", "name"),
        ("variable_declaration", "type"),
        ("parameter", "type"),
        ("property_declaration", "type"),
        ("method_declaration", "returns"),
        ("nullable_type", "type"),
        ("array_type", "type"),
        ("cast_expression", "type"),
        ("typeof_expression", "type"),
        ("catch_declaration", "type"),
        ("declaration_pattern", "type"),
        ("argument", ""),
    ],
};

pub const C: Rules = Rules {
    definitions: &[
        defines_when("function_declarator", "declarator", Kind::Function, OutsideFunctions),
        defines_when("struct_specifier", "name", Kind::Type, Has("body")),
        defines_when("union_specifier", "name", Kind::Type, Has("body")),
        defines_when("enum_specifier", "name", Kind::Type, Has("body")),
        defines("type_definition", "declarator", Kind::Type),
        defines("enumerator", "name", Kind::Value),
        defines_when("init_declarator", "declarator", Kind::Value, OutsideFunctions),
        defines("preproc_def", "name", Kind::Macro),
        defines("preproc_function_def", "name", Kind::Macro),
    ],
    functions: &["compound_statement"],
    names: &["identifier", "field_identifier"],
    types: &["type_identifier"],
    references: &[
        ("call_expression", "function"),
        ("field_expression", "field"),
        ("argument_list", ""),
        ("initializer_list", ""),
        ("initializer_pair", "value"),
        ("case_statement", "value"),
    ],
};

pub const CPP: Rules = Rules {
    definitions: &[
        defines_when("function_declarator", "declarator", Kind::Function, OutsideFunctions),
        defines_when("class_specifier", "name", Kind::Type, Has("body")),
        defines_when("struct_specifier", "name", Kind::Type, Has("body")),
        defines_when("union_specifier", "name", Kind::Type, Has("body")),
        defines_when("enum_specifier", "name", Kind::Type, Has("body")),
        defines("type_definition", "declarator", Kind::Type),
        defines("alias_declaration", "name", Kind::Type),
        defines("concept_definition", "name", Kind::Type),
        defines("namespace_definition", "name", Kind::Module),
        defines("enumerator", "name", Kind::Value),
        defines_when("init_declarator", "declarator", Kind::Value, OutsideFunctions),
        defines("preproc_def", "name", Kind::Macro),
        defines("preproc_function_def", "name", Kind::Macro),
    ],
    functions: &["compound_statement", "lambda_expression"],
    names: &["identifier", "field_identifier", "namespace_identifier"],
    types: &["type_identifier"],
    references: &[
        ("call_expression", "function"),
        ("field_expression", "field"),
        ("qualified_identifier", "name"),
        ("template_function", "name"),
        ("template_method", "name"),
        ("argument_list", ""),
        ("initializer_list", ""),
        ("using_declaration", ""),
        ("case_statement", "value"),
    ],
};
