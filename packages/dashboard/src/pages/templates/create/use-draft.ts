import type { Template, TemplateVersion, TemplateVersionVariable } from '@ropewalk/contract';
import { useState } from 'react';
import type { TagRow } from '../../../ui/tags.tsx';
import { tagRows } from '../build/tags.ts';
import type { TemplateValues } from '../fields.tsx';
import { type Archive, templateName } from '../files/upload.ts';
import { missingVariables, type VariableValues, valuesOf } from '../variable-values.ts';

/** Where the source of a new template comes from. */
export interface Source {
  title: string;
  description: string;
  icon: string;
  /** Suggested values of the form. */
  values: TemplateValues;
  /** What to import. Without any of them, a person uploads an archive. */
  exampleId?: string;
  composed?: Uint8Array<ArrayBuffer>;
  copy?: { version: TemplateVersion; variables: readonly TemplateVersionVariable[]; template: Template };
}

/** What a person enters for a new template. */
export function useDraft({ values: suggested, exampleId, composed, copy }: Source) {
  const [values, setValues] = useState(suggested);
  const [archive, setArchive] = useState<Archive>();
  const [tags, setTags] = useState<readonly TagRow[]>(copy ? tagRows(copy.version.job.tags) : []);
  const [variables, setVariables] = useState(copy?.variables ?? []);
  const [variableValues, setVariableValues] = useState<VariableValues>(() => valuesOf(variables));
  const uploads = !exampleId && !composed && !copy;
  return {
    values,
    setValues,
    /** Whether the source is an archive that the person chooses. */
    uploads,
    archive,
    /** The template gets the name of the archive, unless it has one. */
    setArchive(next: Archive | undefined) {
      setArchive(next);
      if (next) setValues((before) => (before.name === '' ? { ...before, name: templateName(next.name) } : before));
    },
    tags,
    setTags,
    variables,
    variableValues,
    setVariableValues,
    /** Adds fields for the variables that an import has found. Values that the person has entered stay. */
    askFor(needed: readonly TemplateVersionVariable[]) {
      setVariables(needed);
      setVariableValues((before) => ({ ...valuesOf(needed), ...before }));
    },
    /** Whether something that is required is not filled in. */
    missing: values.name === '' || (uploads && !archive) || missingVariables(variables, variableValues).length > 0,
  };
}

export type Draft = ReturnType<typeof useDraft>;
