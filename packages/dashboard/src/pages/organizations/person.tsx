import { Avatar } from '../../ui/avatar.tsx';

/** A person in a list: the picture, the full name, and the username with the address under it. */
export function Person({
  person,
}: {
  person: {
    username: string;
    name?: string | undefined;
    /** Empty in the eyes of people who may see only the name. */
    email: string;
    avatar_url?: string | undefined;
    is_service_account?: boolean | undefined;
  };
}) {
  return (
    <span className="flex min-w-0 items-center gap-3">
      <Avatar name={person.username} src={person.avatar_url} />
      <span className="min-w-0">
        <span className="block truncate font-medium">{person.name || person.username}</span>
        <span className="block truncate text-muted text-sm">
          {[person.name && person.username, person.is_service_account ? 'Service account' : person.email]
            .filter(Boolean)
            .join(' · ')}
        </span>
      </span>
    </span>
  );
}
