# Completion of ackd's commands for bash. Use: eval "$(ackd completion bash)"
_ackd_completion() {
    local line kind=
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            COMPREPLY+=("${line%%$'\t'*}")
        fi
    done <<<"$(
        _ACKD_COMPLETE=bash _ACKD_LINE=${COMP_LINE:0:COMP_POINT} _ACKD_BREAKS=$COMP_WORDBREAKS \
            command ackd </dev/null 2>/dev/null
    )"
    if ((${#COMPREPLY[@]} == 0)); then
        case $kind in
            files) compopt -o bashdefault -o default ;;
            directories) compopt -o dirnames ;;
        esac
    fi
}
complete -o nosort -F _ackd_completion ackd 2>/dev/null || complete -F _ackd_completion ackd
