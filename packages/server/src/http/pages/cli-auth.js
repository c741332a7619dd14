// The page that creates a session token for a terminal. It needs a click, so that no link creates one.
const token = document.getElementById('token');

document.getElementById('make').addEventListener('click', async ({ target }) => {
  target.disabled = true;
  try {
    const answer = await fetch('/api/v2/users/me/keys', { method: 'POST' });
    if (answer.status === 401) return location.replace('/login?redirect=/cli-auth');
    const body = await answer.json().catch(() => ({}));
    token.textContent = answer.ok ? body.key : (body.message ?? `The server answered ${answer.status}.`);
  } catch {
    token.textContent = 'The server does not answer.';
  }
  target.disabled = false;
});
