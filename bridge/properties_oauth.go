package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// oauth makes the mechanism OAUTHBEARER, with tokens from sasl.oauthbearer.token.endpoint.url: by the grant of client credentials
// (KIP-768), or from a file.
func (p *properties) oauth() {
	const endpoint = "sasl.oauthbearer.token.endpoint.url"
	before := len(p.errs)
	switch className(p.values["sasl.oauthbearer.jwt.retriever.class"]) {
	case "", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever":
	default:
		p.bad("sasl.oauthbearer.jwt.retriever.class", "must be one of Kafka's DefaultJwtRetriever, ClientCredentialsJwtRetriever and "+
			"FileJwtRetriever; for another pass kgo.SASL with franz-go's pkg/sasl/oauth")
	}
	options, ok := p.jaas("OAuthBearerLoginModule")
	if !ok {
		return
	}
	s := &tokens{client: &http.Client{}, now: time.Now, extensions: map[string]string{}}
	for key, value := range options {
		if name, ok := strings.CutPrefix(key, "extension_"); ok {
			s.extensions[name] = value
		}
		if strings.HasPrefix(key, "unsecuredLogin") {
			p.bad(jaasConfig, "asks for a token without a signature, which is not supported: set '%s%s'", propertyPrefix, endpoint)
			return
		}
		if strings.HasPrefix(key, "ssl.") {
			p.bad(jaasConfig, "sets TLS options of the token endpoint, which are not supported: its certificate is checked against those of the system")
			return
		}
	}
	// The properties of Kafka 4.1 come before the options of the login module.
	pick := func(property, option string) string {
		if v := p.values[property]; v != "" {
			return v
		}
		return options[option]
	}
	s.id = pick("sasl.oauthbearer.client.credentials.client.id", "clientId")
	s.secret = pick("sasl.oauthbearer.client.credentials.client.secret", "clientSecret")
	s.scope = pick("sasl.oauthbearer.scope", "scope")
	s.encode = strings.EqualFold(p.values["sasl.oauthbearer.header.urlencode"], "true")
	s.timeout = 20 * time.Second
	if v, ok := p.values["sasl.login.read.timeout.ms"]; ok {
		if n, ok := p.number("sasl.login.read.timeout.ms", v, 0, math.MaxInt32); ok && n > 0 {
			s.timeout = time.Duration(n) * time.Millisecond
		}
	}
	u, err := url.Parse(p.values[endpoint])
	switch {
	case p.values[endpoint] == "":
		p.bad(endpoint, "is missing: it says where tokens come from")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file":
		p.bad(endpoint, "must be an https, http or file URL")
	case u.Scheme != "file" && (s.id == "" || s.secret == ""):
		p.bad(jaasConfig, `must give clientId="..." and clientSecret="..."`)
	}
	if len(p.errs) > before {
		return
	}
	s.endpoint = u
	p.add(kgo.SASL(oauth.Oauth(s.auth)))
}

// tokens fetches tokens, and keeps the last one for most of its life: every new connection needs one.
type tokens struct {
	endpoint          *url.URL
	id, secret, scope string
	encode            bool // the id and the secret are URL-encoded in the header (RFC 6749, 2.3.1)
	extensions        map[string]string
	timeout           time.Duration
	client            *http.Client
	now               func() time.Time

	mu    sync.Mutex // held while a token is fetched, so that connections share it
	token string
	until time.Time // when token is to be replaced
}

// auth returns the token for one connection. No error shows the secret or the answer's body.
func (s *tokens) auth(ctx context.Context) (oauth.Auth, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == "" || !s.now().Before(s.until) {
		token, life, err := s.fetch(ctx)
		if err != nil {
			return oauth.Auth{}, fmt.Errorf("OAUTHBEARER: no token from %s: %w", s.endpoint.Redacted(), err)
		}
		// The Java client's sasl.login.refresh.window.factor: four fifths of the life.
		s.token, s.until = token, s.now().Add(life*4/5)
	}
	return oauth.Auth{Token: s.token, Extensions: s.extensions}, nil
}

func (s *tokens) fetch(ctx context.Context) (token string, life time.Duration, err error) {
	if s.endpoint.Scheme == "file" {
		b, err := os.ReadFile(s.endpoint.Path)
		if token = strings.TrimSpace(string(b)); err == nil && token == "" {
			err = errors.New("the file is empty")
		}
		return token, 0, err // whoever replaces the file is to be heard at the next connection
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	form := url.Values{"grant_type": {"client_credentials"}}
	if s.scope != "" {
		form.Set("scope", s.scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, errors.New("the URL is not usable")
	}
	id, secret := s.id, s.secret
	if s.encode {
		id, secret = url.QueryEscape(id), url.QueryEscape(secret)
	}
	req.SetBasicAuth(id, secret)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return "", 0, fmt.Errorf("it answers %s", strconv.Itoa(resp.StatusCode)+" "+http.StatusText(resp.StatusCode))
	}
	var answer struct {
		AccessToken string  `json:"access_token"`
		IDToken     string  `json:"id_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", 0, errors.New("its answer is not the JSON of a token")
	}
	if answer.AccessToken == "" {
		answer.AccessToken = answer.IDToken
	}
	if answer.AccessToken == "" {
		return "", 0, errors.New("its answer holds no access_token")
	}
	seconds := min(max(answer.ExpiresIn, 0), (24 * time.Hour).Seconds())
	return answer.AccessToken, time.Duration(seconds * float64(time.Second)), nil
}
