/** What SCIM clients ask first (RFC 7643, sections 5 to 8): what this server can do, and what it knows of a person. */
import { AppError } from '@ropewalk/kit';
import type { Ctx } from '../context/context.ts';
import { USER_SCHEMA } from './users.ts';

const of = (type: 'ServiceProviderConfig' | 'ResourceType' | 'Schema') =>
  `urn:ietf:params:scim:schemas:core:2.0:${type}`;

/** The maximum number of people in an answer. */
export const MAX_RESULTS = 200;

const CONFIG = {
  schemas: [of('ServiceProviderConfig')],
  documentationUri: '',
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: MAX_RESULTS },
  changePassword: { supported: false },
  sort: { supported: false },
  etag: { supported: false },
  authenticationSchemes: [
    {
      type: 'oauthbearertoken',
      name: 'HTTP Header Authentication',
      description: 'The Authorization header with the value of --scim-auth-header',
    },
  ],
};

interface Attribute {
  type?: 'string' | 'boolean' | 'complex';
  required?: boolean;
  mutability?: 'readOnly' | 'readWrite';
  uniqueness?: 'none' | 'server';
  multiValued?: boolean;
  subAttributes?: unknown[];
}

function attribute(name: string, description: string, more: Attribute = {}) {
  const { type = 'string' } = more;
  return {
    name,
    type,
    multiValued: false,
    description,
    required: false,
    ...(type === 'string' ? { caseExact: false } : {}),
    mutability: 'readWrite',
    returned: 'default',
    uniqueness: 'none',
    ...more,
  };
}

const SCHEMAS = [
  {
    schemas: [of('Schema')],
    id: USER_SCHEMA,
    name: 'User',
    description: 'A person',
    attributes: [
      attribute('userName', 'The name that the client has for the person', { required: true, uniqueness: 'server' }),
      attribute('displayName', 'The full name, if name is absent'),
      attribute('name', 'The full name', {
        type: 'complex',
        subAttributes: [
          attribute('formatted', 'The full name'),
          attribute('givenName', 'The given name'),
          attribute('familyName', 'The family name'),
        ],
      }),
      attribute('emails', 'The email addresses. The primary one is stored', {
        type: 'complex',
        multiValued: true,
        required: true,
        subAttributes: [
          attribute('value', 'The address', { required: true, uniqueness: 'server' }),
          attribute('type', 'For example "work"'),
          attribute('primary', 'Whether it is the one to use', { type: 'boolean' }),
        ],
      }),
      attribute('active', 'Whether the person may sign in', { type: 'boolean' }),
    ],
  },
];

const RESOURCE_TYPES = [
  {
    schemas: [of('ResourceType')],
    id: 'User',
    name: 'User',
    description: 'A person',
    endpoint: '/Users',
    schema: USER_SCHEMA,
  },
];

const located = <T extends object>({ accessUrl }: Ctx, object: T, resourceType: string, path: string) => ({
  ...object,
  meta: { resourceType, location: `${accessUrl}/scim/v2${path}` },
});

export const providerConfig = (ctx: Ctx) => located(ctx, CONFIG, 'ServiceProviderConfig', '/ServiceProviderConfig');

export const resourceTypes = (ctx: Ctx) =>
  RESOURCE_TYPES.map((one) => located(ctx, one, 'ResourceType', `/ResourceTypes/${one.id}`));

export const schemas = (ctx: Ctx) => SCHEMAS.map((one) => located(ctx, one, 'Schema', `/Schemas/${one.id}`));

/** @throws AppError `not_found` */
export function byId<T extends { id: string }>(all: readonly T[], id: string): T {
  const found = all.find((one) => one.id === id);
  if (!found) throw new AppError('not_found', `Unknown resource type or schema "${id}".`);
  return found;
}
