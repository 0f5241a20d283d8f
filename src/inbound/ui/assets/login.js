// Hands in the token of the link's fragment, and takes it out of the address and the history first.
const form = document.querySelector('form'), token = location.hash.slice(1), query = new URLSearchParams(location.search);
if (token) {
  history.replaceState(null, '', location.pathname + location.search);
  form.token.value = token;
  form.submit();
} else if (!document.querySelector('.wrong') && query.get('again') !== '1') {
  // Who followed a link from another site is logged in perhaps: asked from here, the browser shows its cookie.
  query.set('again', '1');
  location.replace(`${location.pathname}?${query}`);
}
