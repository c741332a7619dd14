import { type Static, Type } from 'typebox';
import { Line, Nullable, named, ParameterValue, stringEnum, Uuid } from './kit.ts';
import { ParameterFormType, ParameterType } from './templates.ts';

/** The number of a request on one connection. The first answer, before any request, has -1. */
const RequestId = Type.Integer({ minimum: -1, maximum: Number.MAX_SAFE_INTEGER });

export const DynamicParametersRequest = named(
  'DynamicParametersRequest',
  Type.Object({
    id: Type.Optional(RequestId),
    /** The values typed so far, by parameter. */
    inputs: Type.Optional(Type.Record(Line, ParameterValue, { maxProperties: 1_000 })),
    /** The owner of the workspace. Absent: the owner of the request before, at first the caller. */
    owner_id: Type.Optional(Uuid),
  }),
);
export type DynamicParametersRequest = Static<typeof DynamicParametersRequest>;

export const DiagnosticExtra = named('DiagnosticExtra', Type.Object({ code: Type.String() }));
export type DiagnosticExtra = Static<typeof DiagnosticExtra>;

export const DiagnosticSeverityString = named('DiagnosticSeverityString', stringEnum(['error', 'warning']));
export type DiagnosticSeverityString = Static<typeof DiagnosticSeverityString>;

export const FriendlyDiagnostic = named(
  'FriendlyDiagnostic',
  Type.Object({
    severity: DiagnosticSeverityString,
    summary: Type.String(),
    detail: Type.String(),
    extra: DiagnosticExtra,
  }),
);
export type FriendlyDiagnostic = Static<typeof FriendlyDiagnostic>;

/** A text that counts only if it is valid. Otherwise it is null or not known yet. */
export const NullHCLString = named('NullHCLString', Type.Object({ value: Type.String(), valid: Type.Boolean() }));
export type NullHCLString = Static<typeof NullHCLString>;

export const PreviewParameterOption = named(
  'PreviewParameterOption',
  Type.Object({
    name: Type.String(),
    description: Type.String(),
    value: NullHCLString,
    icon: Type.String(),
  }),
);
export type PreviewParameterOption = Static<typeof PreviewParameterOption>;

export const PreviewParameterStyling = named(
  'PreviewParameterStyling',
  Type.Object({
    placeholder: Type.Optional(Type.String()),
    disabled: Type.Optional(Type.Boolean()),
    label: Type.Optional(Type.String()),
    mask_input: Type.Optional(Type.Boolean()),
  }),
);
export type PreviewParameterStyling = Static<typeof PreviewParameterStyling>;

export const PreviewParameterValidation = named(
  'PreviewParameterValidation',
  Type.Object({
    validation_error: Type.String(),
    validation_regex: Nullable(Type.String()),
    validation_min: Nullable(Type.Integer()),
    validation_max: Nullable(Type.Integer()),
    validation_monotonic: Nullable(Type.String()),
  }),
);
export type PreviewParameterValidation = Static<typeof PreviewParameterValidation>;

export const PreviewParameter = named(
  'PreviewParameter',
  Type.Object({
    name: Type.String(),
    display_name: Type.String(),
    description: Type.String(),
    type: ParameterType,
    form_type: ParameterFormType,
    styling: PreviewParameterStyling,
    mutable: Type.Boolean(),
    default_value: NullHCLString,
    icon: Type.String(),
    options: Type.Array(PreviewParameterOption),
    validations: Type.Array(PreviewParameterValidation),
    required: Type.Boolean(),
    order: Type.Integer(),
    ephemeral: Type.Boolean(),
    value: NullHCLString,
    diagnostics: Type.Array(FriendlyDiagnostic),
  }),
);
export type PreviewParameter = Static<typeof PreviewParameter>;

export const DynamicParametersResponse = named(
  'DynamicParametersResponse',
  Type.Object({
    id: Type.Integer(),
    diagnostics: Type.Array(FriendlyDiagnostic),
    parameters: Type.Array(PreviewParameter),
  }),
);
export type DynamicParametersResponse = Static<typeof DynamicParametersResponse>;
