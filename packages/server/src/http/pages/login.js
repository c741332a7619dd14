// The sign-in page, in the browser. The server puts the session into a cookie that no script can read.
const form = document.getElementById('login');
const wrong = document.getElementById('wrong');

/** Where to go afterwards: only to pages of this server. */
function destination() {
  const wanted = new URLSearchParams(location.search).get('redirect') ?? '/';
  const url = new URL(wanted, location.origin);
  return wanted.startsWith('/') && url.origin === location.origin ? url.href : '/';
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  wrong.textContent = '';
  const { email, password } = Object.fromEntries(new FormData(form));
  try {
    const answer = await fetch('/api/v2/users/login', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ email, password }),
    });
    const body = await answer.json().catch(() => ({}));
    if (answer.ok) return location.replace(destination());
    wrong.textContent = body.message ?? `The server answered ${answer.status}.`;
  } catch {
    wrong.textContent = 'The server does not answer.';
  }
});
