/** Whether an object with these labels is selected. */
export type Selector = (labels: Readonly<Record<string, string>>) => boolean;

const KEY = '[A-Za-z0-9](?:[-\\w./]*[A-Za-z0-9])?';
const VALUE = '[-\\w.]*';
const FORMS = [
  new RegExp(`^(?<key>${KEY})\\s*(?<not>!?)={1,2}\\s*(?<value>${VALUE})$`),
  new RegExp(`^(?<key>${KEY})\\s+(?<not>not)?in\\s*\\((?<values>[^()]*)\\)$`),
  new RegExp(`^(?<not>!?)\\s*(?<key>${KEY})$`),
];

/** Parses a label selector as Kubernetes defines it, such as `a=b,c in (d,e),!f`. Undefined if it is malformed. */
export function parseSelector(text: string): Selector | undefined {
  if (text.trim() === '') return () => true;
  const tests: Selector[] = [];
  // commas in parentheses separate values
  for (const part of text.split(/,(?![^(]*\))/)) {
    const groups = FORMS.map((form) => form.exec(part.trim())?.groups).find((found) => found !== undefined);
    if (!groups) return undefined;
    const { key = '', not = '', value, values } = groups;
    const allowed = value === undefined ? values?.split(',').map((each) => each.trim()) : [value];
    const matches: Selector = (labels) =>
      Object.hasOwn(labels, key) && (allowed === undefined || allowed.includes(labels[key]!));
    tests.push(not === '' ? matches : (labels) => !matches(labels));
  }
  return (labels) => tests.every((test) => test(labels));
}
