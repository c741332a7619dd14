import { type Static, Type } from 'typebox';
import { documentedAlso, ImageAddress, Line, named, Paragraph, stringEnum, Tags, Uuid } from './kit.ts';
import { Template } from './templates.ts';

export const TemplateBuilderVariableType = named(
  'TemplateBuilderVariableType',
  stringEnum(['string', 'number', 'bool']),
);

export const TemplateBuilderModuleVariable = named(
  'TemplateBuilderModuleVariable',
  Type.Object({
    name: Type.String(),
    type: TemplateBuilderVariableType,
    description: Type.String(),
    /** Absent if there is none. */
    default: documentedAlso(
      Type.Optional(Type.Unsafe<string | number | boolean>({ type: ['string', 'number', 'boolean'] })),
      { type: 'array', items: { type: 'integer' } },
    ),
    required: Type.Boolean(),
    /** The version stores its value, and the source of the template does not contain it. */
    sensitive: Type.Boolean(),
  }),
);
export type TemplateBuilderModuleVariable = Static<typeof TemplateBuilderModuleVariable>;

export const TemplateBuilderBase = named(
  'TemplateBuilderBase',
  Type.Object({
    id: Type.String(),
    name: Type.String(),
    description: Type.String(),
    icon: Type.String(),
    /** `linux`, `windows` or `macos`. */
    os: Type.String(),
    variables: Type.Array(TemplateBuilderModuleVariable),
    /** Markdown. */
    prerequisites: Type.String(),
  }),
);
export type TemplateBuilderBase = Static<typeof TemplateBuilderBase>;

export const TemplateBuilderBasesResponse = named(
  'TemplateBuilderBasesResponse',
  Type.Object({
    bases: Type.Array(TemplateBuilderBase),
    /**
     * An extension of upstream's API: what is wrong with the administrator's folder of bases and modules. Empty for
     * people who may not create templates.
     */
    problems: Type.Array(Type.String()),
  }),
);
export type TemplateBuilderBasesResponse = Static<typeof TemplateBuilderBasesResponse>;

export const TemplateBuilderModule = named(
  'TemplateBuilderModule',
  Type.Object({
    id: Type.String(),
    display_name: Type.String(),
    description: Type.String(),
    icon: Type.String(),
    category: Type.String(),
    version: Type.String(),
    /** Empty: all. */
    compatible_os: Type.Array(Type.String()),
    conflicts_with: Type.Array(Type.String()),
    variables: Type.Array(TemplateBuilderModuleVariable),
  }),
);
export type TemplateBuilderModule = Static<typeof TemplateBuilderModule>;

export const TemplateBuilderModulesResponse = named(
  'TemplateBuilderModulesResponse',
  Type.Object({ modules: Type.Array(TemplateBuilderModule) }),
);
export type TemplateBuilderModulesResponse = Static<typeof TemplateBuilderModulesResponse>;

/** The value of each variable as a text. Longer values than the rules allow get an explanation. */
const Values = Type.Record(Line, Paragraph, { maxProperties: 1_000 });

export const TemplateBuilderComposeModule = named(
  'TemplateBuilderComposeModule',
  Type.Object({ id: Line, variables: Type.Optional(Values) }),
);
export type TemplateBuilderComposeModule = Static<typeof TemplateBuilderComposeModule>;

const choice = {
  base_template_id: Line,
  base_variable_values: Type.Optional(Values),
  modules: Type.Optional(Type.Array(TemplateBuilderComposeModule, { maxItems: 200 })),
};

export const TemplateBuilderComposeRequest = named('TemplateBuilderComposeRequest', Type.Object(choice));
export type TemplateBuilderComposeRequest = Static<typeof TemplateBuilderComposeRequest>;

export const TemplateBuilderCreateTemplateRequest = named(
  'TemplateBuilderCreateTemplateRequest',
  Type.Object({
    ...choice,
    organization_id: Uuid,
    name: Line,
    display_name: Type.Optional(Line),
    description: Type.Optional(Paragraph),
    icon: Type.Optional(ImageAddress),
    provisioner_tags: Type.Optional(Tags),
  }),
);
export type TemplateBuilderCreateTemplateRequest = Static<typeof TemplateBuilderCreateTemplateRequest>;

export const TemplateBuilderCreateTemplateResponse = named(
  'TemplateBuilderCreateTemplateResponse',
  Type.Object({ template: Template }),
);
export type TemplateBuilderCreateTemplateResponse = Static<typeof TemplateBuilderCreateTemplateResponse>;

export const TemplateBuilderSessionEventType = named(
  'TemplateBuilderSessionEventType',
  stringEnum(['wizard_entry', 'compose_completion']),
);

export const TemplateBuilderSessionRequest = named(
  'TemplateBuilderSessionRequest',
  Type.Object({
    session_id: Uuid,
    event_type: TemplateBuilderSessionEventType,
    base_template_id: Type.Optional(Line),
    module_ids: Type.Optional(Type.Array(Line, { maxItems: 1_000 })),
    duration_seconds: Type.Optional(Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
    success: Type.Optional(Type.Boolean()),
  }),
);
export type TemplateBuilderSessionRequest = Static<typeof TemplateBuilderSessionRequest>;
