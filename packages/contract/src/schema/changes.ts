import { type Static, Type } from 'typebox';
import { named, stringEnum, Uuid } from './kit.ts';

export const ChangeKind = named(
  'ChangeKind',
  stringEnum([
    'workspace',
    'template',
    'template_version',
    'job',
    'provisioner',
    'provisioner_key',
    'organization',
    'organization_member',
    'group',
    'user',
    'deployment',
    'notification',
  ]),
);
export type ChangeKind = Static<typeof ChangeKind>;

/**
 * Names an object that was created, changed or deleted, and the objects that show parts of it. It contains only ids: a
 * client reads again what it shows of them.
 */
export const Change = named(
  'Change',
  Type.Object({
    kind: ChangeKind,
    /** Of the object of this kind. Of a member: the user's. */
    id: Type.String(),
    organization_id: Type.Optional(Uuid),
    owner_id: Type.Optional(Uuid),
    workspace_id: Type.Optional(Uuid),
    workspace_build_id: Type.Optional(Uuid),
    template_id: Type.Optional(Uuid),
    template_version_id: Type.Optional(Uuid),
    /** The daemon that runs or ran a job. */
    provisioner_id: Type.Optional(Uuid),
  }),
);
export type Change = Static<typeof Change>;

/** The first event of a stream of changes. */
export const ChangeHello = named(
  'ChangeHello',
  Type.Object({
    /** Of the server. It differs after an upgrade. */
    version: Type.String(),
    /** Whether the stream continues after the event that the client named, without a gap. */
    resumed: Type.Boolean(),
  }),
);
export type ChangeHello = Static<typeof ChangeHello>;
