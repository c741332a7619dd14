import type { Template } from '@ropewalk/contract';
import { useQueries, useQuery } from '@tanstack/react-query';
import { organizationPermissions, usableTemplates } from '../../api/permissions.ts';

/** Why the person cannot create workspaces from a template, in words. */
export interface Barrier {
  title: string;
  detail: string;
}

const TITLE = 'You cannot create workspaces from this template';

const deprecation = ({ deprecation_message: message }: Template): Barrier => ({
  title: 'This template is deprecated. New workspaces cannot be made from it.',
  detail: message || 'Ask an administrator which template replaces it.',
});

const roles = (template: Template): Barrier => ({
  title: TITLE,
  detail: `Your roles in the organization ${template.organization_display_name || template.organization_name} do not allow it. Ask an administrator of the organization.`,
});

const permission: Barrier = {
  title: TITLE,
  detail: 'You may read the template, but not use it. Ask an administrator of the template for the permission.',
};

/** What keeps the person from creating workspaces from each of these templates. Null: nothing. Undefined: not known yet. */
export function useBarriers(templates: readonly Template[]): (template: Template) => Barrier | null | undefined {
  const organizationIds = [...new Set(templates.map(({ organization_id: id }) => id))];
  const answers = useQueries({ queries: organizationIds.map((id) => organizationPermissions(id)) });
  const answerOf = new Map(organizationIds.map((id, at) => [id, answers[at]!]));
  // without the right to read all templates, the person sees only those that list them, and may use these
  const unclear = templates.filter(({ organization_id: id }) => {
    const may = answerOf.get(id)?.data;
    return may?.createOwnWorkspace && may.readTemplates && !may.useTemplates;
  });
  const unclearIds = new Set(unclear.map(({ id }) => id).sort());
  const usable = useQuery(usableTemplates([...unclearIds]));
  return (template) => {
    if (template.deprecated) return deprecation(template);
    const { data: may, isError } = answerOf.get(template.organization_id)!;
    // without an answer, the server rejects what the person may not do
    if (isError && !may) return null;
    if (!may) return undefined;
    if (!may.createOwnWorkspace) return roles(template);
    if (!unclearIds.has(template.id) || usable.isError) return null;
    return usable.data && (usable.data.has(template.id) ? null : permission);
  };
}

/** What keeps the person from creating workspaces from a template, as `useBarriers` reports it. */
export const useBarrier = (template: Template): Barrier | null | undefined => useBarriers([template])(template);
