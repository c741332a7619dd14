/**
 * What happens to keys of a request's body that the contract does not have. Each route with a body declares why it ignores
 * or rejects them. docs/reference/unknown-keys.md shows the list.
 */
const REASONS = {
  access: {
    rejects: true,
    text: 'The body gives or takes access. An ignored key could leave more access than the client asked for',
  },
  limit: {
    rejects: true,
    text: 'The body sets a limit, a schedule or an end. An ignored key could leave none',
  },
  work: {
    rejects: true,
    text: 'The request changes machines. An ignored key could have made it do less',
  },
  display: {
    rejects: false,
    text: 'The body has names, looks, marks or wishes for notifications. None of them limits anyone',
  },
  report: {
    rejects: false,
    text: 'The body is a report of a browser, an agent or a test. It gives no access',
  },
  content: {
    rejects: false,
    text: 'The body describes or chooses template versions. Their files, and not a key, decide what a build does',
  },
  answer: {
    rejects: false,
    text: 'The request computes an answer. What follows from it checks access again',
  },
} as const;

export type UnknownKeysReason = keyof typeof REASONS;

/** A key that upstream's clients send and the contract does not have. */
export interface ForeignKey {
  /** What it does in upstream, for the documentation. */
  text: string;
  /** Whether the server may ignore this value, because it leaves no more access and no weaker limit than requested. */
  harmless(value: unknown, body: Readonly<Record<string, unknown>>): boolean;
  /** The values that are harmless, for the documentation, if only some are. */
  except?: string;
}

export interface UnknownKeys {
  rejects: boolean;
  reason: UnknownKeysReason;
  text: string;
  /** By the key's name. */
  foreign: ReadonlyMap<string, ForeignKey>;
}

/** Declares whether a route rejects unknown keys, and judges those that upstream's clients send. */
export function unknownKeys(
  reason: UnknownKeysReason,
  foreign: Readonly<Record<string, ForeignKey>> = {},
): UnknownKeys {
  return { ...REASONS[reason], reason, foreign: new Map(Object.entries(foreign)) };
}

/** A foreign key that gives or decorates something. */
export const harmless = (text: string): ForeignKey => ({ text, harmless: () => true });

/** The key `enable_dynamic_parameters`, which some clients send with a build. */
export const dynamicParameters = harmless('how the form of the template is evaluated');

/** A foreign key that restricts. */
export const restricts = (text: string): ForeignKey => ({ text, harmless: () => false });

/** A foreign key that restricts, except with some values. */
export const restrictsUnless = (text: string, except: string, isHarmless: ForeignKey['harmless']): ForeignKey => ({
  text,
  except,
  harmless: isHarmless,
});
