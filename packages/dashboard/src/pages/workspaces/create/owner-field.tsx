import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { apiQuery } from '../../../api/query.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Combobox } from '../../../ui/combobox.tsx';
import { Field } from '../../../ui/field.tsx';

/** The owner of a new workspace, for those who may make one for other people. */
export function OwnerField({ value, onChange }: { value: string; onChange: (username: string) => void }) {
  const [typed, setTyped] = useState('');
  const search = useDeferredValue(typed);
  const users = useQuery({
    ...apiQuery('GET /users', [{ kind: 'user' }], { query: { q: `${search} status:active`.trim(), limit: 20 } }),
    placeholderData: keepPreviousData,
  });
  return (
    <Field label="Owner" help="Type a name to find another person.">
      <Combobox
        value={value}
        onChange={onChange}
        typed={typed}
        onType={setTyped}
        options={(users.data?.users ?? []).map((user) => ({
          value: user.username,
          label: (
            <span className="flex min-w-0 items-center gap-2">
              <Avatar name={user.username} src={user.avatar_url} size={20} />
              <span className="truncate">{user.name || user.username}</span>
              <span className="truncate text-muted text-sm">{user.name ? user.username : user.email}</span>
            </span>
          ),
        }))}
      />
    </Field>
  );
}
